//! One route changes while 30 others change a second.
//!
//! As `change`, but host and bare loop are measured one after the other, each under its own churn,
//! which it folds: one response is under way, and what changes meanwhile goes into the next. In the
//! end the proxy must have acknowledged the newest state of everything that was changed.

use super::Scope;
use super::change::{self, MEASURED, Revisions};
use crate::folder::{self, OWN, Plan, Shape};
use crate::pair::Pair;
use crate::report::Row;
use crate::seen::Seen;
use crate::wire::VIRTUAL_HOST;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Other changes a second.
const PER_SECOND: u32 = 30;

/// Between a measured change and the next: no multiple of the churn's period.
const PAUSE: Duration = Duration::from_millis(97);

/// Revisions of the churn, above all others.
const REVISIONS: usize = 10_000_000;

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in scope.sizes(&[1_000, 10_000]) {
        rows.extend(one(size, scope.runs(100)).await?);
    }
    Ok(rows)
}

async fn one(size: usize, runs: usize) -> anyhow::Result<Vec<Row>> {
    let mut pair = Pair::start(Plan::routes(size, Shape::Hostnames)).await?;

    let mut revisions = Revisions::new(&pair);
    let before = pair.envoy.seen.counts(VIRTUAL_HOST).responses;
    let folder = pair.folder.clone();
    let churn = Churn::start(move |route, revision| folder.route(route, revision)?.commit());
    let mut ours = Vec::new();
    for run in 0..runs {
        tokio::time::sleep(PAUSE).await;
        let (_, revision) = revisions.next(run % MEASURED);
        ours.push(change::host(&mut pair, run % MEASURED, revision).await?);
    }
    let others = churn.stop().await?;
    newest_is_in(&mut pair.envoy.seen, &revisions.places, &others).await?;
    let responses = pair.envoy.seen.counts(VIRTUAL_HOST).responses - before;

    let mut revisions = Revisions::new(&pair);
    let churn = Churn::start(rewriter(&pair, revisions.places.clone()));
    let mut floor = Vec::new();
    for run in 0..runs {
        tokio::time::sleep(PAUSE).await;
        let route = run % MEASURED;
        let change = revisions.next(route);
        floor.push(change::bare(&mut pair, &revisions.places, route, change).await?);
    }
    let rewritten = churn.stop().await?;
    newest_is_in(&mut pair.bare_envoy.seen, &revisions.places, &rewritten).await?;

    let what = format!("one route changed, {PER_SECOND} others a second");
    let mut rows = change::rows(&what, size, &ours, &floor, 1.5);
    if let Some(row) = rows.first_mut() {
        let changes = others.made + runs;
        row.note =
            format!("{changes} changes in {responses} responses; the newest of each is ACKed");
    }
    Ok(rows)
}

/// Changes a route of the bare loop's by replacing its mark.
fn rewriter(
    pair: &Pair,
    places: Vec<String>,
) -> impl FnMut(usize, usize) -> anyhow::Result<()> + Send + 'static {
    let bare = pair.bare.clone();
    let mut marks: Vec<String> = (0..OWN).map(folder::mark).collect();
    move |route, revision| {
        let place = places.get(route).context("no such route")?;
        let mark = marks.get_mut(route).context("no such route")?;
        let new = folder::mark(revision);
        let body = folder::replace(&bare.get(VIRTUAL_HOST, place), mark, &new);
        *mark = new;
        bare.put(VIRTUAL_HOST, vec![(place.clone(), body.into())]);
        Ok(())
    }
}

/// What was changed.
#[derive(Debug, Default)]
struct Changed {
    /// How often.
    made: usize,
    /// The newest revision of each route.
    newest: BTreeMap<usize, usize>,
}

/// Changes going on.
struct Churn {
    task: JoinHandle<anyhow::Result<()>>,
    changed: Arc<Mutex<Changed>>,
}

impl Churn {
    /// Calls `change` with route and revision, again and again, until it is stopped.
    fn start(mut change: impl FnMut(usize, usize) -> anyhow::Result<()> + Send + 'static) -> Self {
        let changed = Arc::new(Mutex::new(Changed::default()));
        let noted = changed.clone();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
            for turn in 0.. {
                ticks.tick().await;
                let route = MEASURED + turn % (OWN - MEASURED);
                change(route, REVISIONS + turn)?;
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.made += 1;
                noted.newest.insert(route, REVISIONS + turn);
            }
            Ok(())
        });
        Self { task, changed }
    }

    /// Ends them. What was changed is changed wholly.
    async fn stop(self) -> anyhow::Result<Changed> {
        self.task.abort();
        if let Ok(ended) = self.task.await {
            ended.context("the churn ended by itself")?;
        }
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut changed))
    }
}

/// Waits until the newest state of everything that was changed is acknowledged.
async fn newest_is_in(seen: &mut Seen, places: &[String], changed: &Changed) -> anyhow::Result<()> {
    let is_in = |seen: &Seen| {
        changed.newest.iter().all(|(route, revision)| {
            let hosts = seen.acked().get(VIRTUAL_HOST);
            let place = places.get(*route);
            let body = place.and_then(|place| hosts?.get(place));
            body.is_some_and(|body| folder::holds(body, &folder::mark(*revision)))
        })
    };
    seen.until_is(is_in)
        .await
        .context("the newest state of a route was not acknowledged")
}
