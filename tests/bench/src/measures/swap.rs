//! A module is replaced under 10,000 objects.
//!
//! Every route has a policy of the module `hello`; the new version returns something else for each.
//! Measured from the rename of the ConfigMap's file: reading, compiling, the trial on all objects,
//! the epoch, assembling and sending 10,000 virtual hosts, Envoy. The floor is the last alone: a bare
//! loop that sends the same virtual hosts at once.

use super::Scope;
use crate::folder::{self, Plan, Shape};
use crate::pair::{self, Pair};
use crate::report::{Aim, Row, Unit};
use crate::seen::Seen;
use crate::stats::Summary;
use crate::wire::VIRTUAL_HOST;
use anyhow::Context as _;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// What only the second version's output holds.
const SECOND: &str = "Hello, ";

/// Nothing has passed for so long: both are at rest.
const REST: Duration = Duration::from_secs(1);

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in scope.sizes(&[10_000]) {
        rows.extend(one(size, scope.runs(6)).await?);
    }
    Ok(rows)
}

async fn one(size: usize, runs: usize) -> anyhow::Result<Option<Row>> {
    let mut pair = Pair::start(Plan {
        policies: true,
        ..Plan::routes(size, Shape::Hostnames)
    })
    .await?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let version = if run % 2 == 0 { 2 } else { 1 };
        pair.envoy.seen.until_quiet(REST).await?;
        let begin = Instant::now();
        let module = pair.folder.module(version)?;
        module.commit()?;
        let last = until_swapped(&mut pair.envoy.seen, size, version).await;
        let last = last.with_context(|| {
            format!(
                "the module; the host says: {}",
                pair::tail(&pair.host.output())
            )
        })?;
        ours.push(last - begin);

        pair.bare_envoy.seen.until_quiet(REST).await?;
        let changed: Vec<_> = pair.envoy.seen.acked_of(VIRTUAL_HOST).collect();
        let changed = changed
            .into_iter()
            .filter(|(_, body)| folder::holds(body, "rev-"))
            .map(|(name, body)| (name.clone(), body.clone()))
            .collect();
        let begin = Instant::now();
        pair.bare.put(VIRTUAL_HOST, changed);
        let last = until_swapped(&mut pair.bare_envoy.seen, size, version).await?;
        floor.push(last - begin);
    }
    let what = "module replaced under all routes' policies: file renamed → last ACK";
    let row = Row::new(what, size, Unit::Seconds, Summary::seconds(&ours));
    Ok(row.map(|row| row.floor(Summary::seconds(&floor)).aim(Aim::FloorAnd(1.0))))
}

/// Waits until all routes' virtual hosts are acknowledged with what a version returns.
async fn until_swapped(seen: &mut Seen, routes: usize, version: u8) -> anyhow::Result<Instant> {
    let mut swapped = HashSet::new();
    loop {
        let acked = seen.next_acked().await?;
        if acked.type_url != VIRTUAL_HOST {
            continue;
        }
        for resource in &acked.resources {
            let is_second = folder::holds(&resource.value(), SECOND);
            if is_second == (version == 2) {
                swapped.insert(resource.name.clone());
            }
        }
        if swapped.len() >= routes {
            return Ok(acked.at);
        }
    }
}
