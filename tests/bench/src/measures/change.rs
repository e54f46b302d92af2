//! One route changes while nothing else does.
//!
//! A route's file is replaced by a rename. Until the proxy acknowledges, three things happen: the
//! host's watcher sees and reads the file, the host works out what the change means, and Envoy takes
//! it. The floor is the last alone, of the same bytes: a bare loop that was told what to send. Host
//! and bare loop take turns, so that both are measured under the same load.

use super::Scope;
use crate::folder::{self, OWN, Plan, Shape};
use crate::pair::Pair;
use crate::report::{self, Aim, Row, Unit};
use crate::stats::Summary;
use crate::wire::VIRTUAL_HOST;
use anyhow::Context as _;
use std::time::{Duration, Instant, SystemTime};

/// Between two changes, at least.
const PAUSE: Duration = Duration::from_millis(20);

/// Routes that are changed, one after the other.
pub const MEASURED: usize = OWN / 10;

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Until the acknowledgement.
    pub total: Duration,
    /// Of it, from when the watcher had read the file; all of it for a bare loop.
    pub engine: Duration,
    /// Bytes of the response.
    pub bytes: usize,
}

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for shape in [Shape::Hostnames, Shape::Paths] {
        for size in scope.sizes(&[1_000, 10_000, 100_000]) {
            rows.extend(one(shape, size, scope.runs(runs(shape, size))).await?);
        }
    }
    Ok(rows)
}

/// As many as the time allows: with all routes on one hostname Envoy builds its whole table anew.
fn runs(shape: Shape, size: usize) -> usize {
    match (shape, size) {
        (_, 0..=1_000) | (Shape::Hostnames, 1_001..=10_000) => 200,
        (Shape::Hostnames, _) => 100,
        (Shape::Paths, 1_001..=10_000) => 50,
        (Shape::Paths, _) => 10,
    }
}

async fn one(shape: Shape, size: usize, runs: usize) -> anyhow::Result<Vec<Row>> {
    let mut pair = Pair::start(Plan::routes(size, shape)).await?;
    let mut revisions = Revisions::new(&pair);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let route = run % MEASURED.min(size);
        let (old, new) = revisions.next(route);
        rest(&mut pair).await?;
        ours.push(host(&mut pair, route, new).await?);
        rest(&mut pair).await?;
        floor.push(bare(&mut pair, &revisions.places, route, (old, new)).await?);
    }
    let what = match shape {
        Shape::Hostnames => "one route changed, a hostname each",
        Shape::Paths => "one route changed, all on one hostname",
    };
    Ok(rows(what, size, &ours, &floor, 1.3))
}

/// The lines for changes: all of it, and what the host itself takes.
pub fn rows(what: &str, size: usize, ours: &[Sample], floor: &[Sample], aim: f64) -> Vec<Row> {
    let of = |samples: &[Sample], time: fn(&Sample) -> Duration| {
        Summary::seconds(&samples.iter().map(time).collect::<Vec<_>>())
    };
    let bytes = |samples: &[Sample]| {
        let bytes = samples.iter().map(|sample| sample.bytes).max().unwrap_or(0);
        // Far below what a double holds exactly.
        #[allow(clippy::cast_precision_loss)]
        report::show(bytes as f64, Unit::Bytes)
    };
    let row = |measure: String, time: fn(&Sample) -> Duration| {
        let row = Row::new(&measure, size, Unit::Seconds, of(ours, time))?;
        Some(row.floor(of(floor, time)).aim(Aim::RatioOfP99(aim)))
    };
    let whole = row(format!("{what}: file renamed → ACK"), |sample| {
        sample.total
    });
    let engine = row(format!("{what}: file read → ACK"), |sample| sample.engine);
    let note = format!("on the wire {}, floor {}", bytes(ours), bytes(floor));
    [whole.map(|row| row.note(note)), engine]
        .into_iter()
        .flatten()
        .collect()
}

/// States of routes.
#[derive(Debug)]
pub struct Revisions {
    /// The virtual host of each route.
    pub places: Vec<String>,
    current: Vec<usize>,
    last: usize,
}

impl Revisions {
    /// Of a pair that nothing was changed in yet.
    pub fn new(pair: &Pair) -> Self {
        Self {
            places: folder::places(&pair.bare_envoy.seen),
            current: (0..OWN).collect(),
            last: pair.folder.plan().routes,
        }
    }

    /// A new one for a route; the one before it and it.
    pub fn next(&mut self, route: usize) -> (usize, usize) {
        self.last += 1;
        let old = self
            .current
            .get_mut(route)
            .map_or(0, |current| std::mem::replace(current, self.last));
        (old, self.last)
    }
}

/// Waits until neither proxy is told anything.
async fn rest(pair: &mut Pair) -> anyhow::Result<()> {
    pair.envoy.seen.until_quiet(PAUSE).await?;
    pair.bare_envoy.seen.catch_up()
}

/// Changes a route of the host's.
pub async fn host(pair: &mut Pair, route: usize, revision: usize) -> anyhow::Result<Sample> {
    let mark = folder::mark(revision);
    let prepared = pair.folder.route(route, revision)?;
    let log = pair.host.log_length()?;
    let (begin, clock) = (Instant::now(), SystemTime::now());
    prepared.commit()?;
    let acked = pair
        .envoy
        .seen
        .until(|acked| {
            acked.type_url == VIRTUAL_HOST
                && acked
                    .resources
                    .iter()
                    .any(|resource| folder::holds(&resource.value(), &mark))
        })
        .await?;
    let total = acked.at - begin;
    let read = read_after(&pair.host.log_since(log)?, &folder::name(route), clock)
        .with_context(|| format!("the host's log does not say when {route} was read"))?;
    Ok(Sample {
        total,
        engine: total.saturating_sub(read),
        bytes: acked.bytes,
    })
}

/// Changes a route of the bare loop's.
pub async fn bare(
    pair: &mut Pair,
    places: &[String],
    route: usize,
    (old, new): (usize, usize),
) -> anyhow::Result<Sample> {
    let place = places.get(route).context("no such route")?;
    let mark = folder::mark(new);
    let body = pair.bare.get(VIRTUAL_HOST, place);
    let body = folder::replace(&body, &folder::mark(old), &mark);
    anyhow::ensure!(folder::holds(&body, &mark), "{place} has no {mark}");
    let begin = Instant::now();
    pair.bare
        .put(VIRTUAL_HOST, vec![(place.clone(), body.into())]);
    let of_place = |acked: &crate::seen::Acked| {
        let resources = &acked.resources;
        acked.type_url == VIRTUAL_HOST
            && resources
                .iter()
                .any(|resource| resource.name == *place && folder::holds(&resource.value(), &mark))
    };
    let acked = pair.bare_envoy.seen.until(of_place).await?;
    let total = acked.at - begin;
    Ok(Sample {
        total,
        engine: total,
        bytes: acked.bytes,
    })
}

/// How long after `begin` an object was read, by the host's log.
fn read_after(log: &str, object: &str, begin: SystemTime) -> Option<Duration> {
    /// Seconds of a day: a log line's date is not looked at.
    const DAY: f64 = 86_400.0;
    let line = log.lines().find(|line| {
        line.contains(" read ") && line.split(['/', ' ']).any(|word| word == object)
    })?;
    let at = time_of_day(line.split(' ').next()?)?;
    let begin = begin.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let after = (at - begin.as_secs_f64() % DAY).rem_euclid(DAY);
    // The log rounds down to a microsecond.
    Some(if after > DAY / 2.0 {
        Duration::ZERO
    } else {
        Duration::from_secs_f64(after)
    })
}

/// Seconds since midnight of `2026-01-31T12:34:56.789012Z`.
fn time_of_day(stamp: &str) -> Option<f64> {
    let (_, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let mut seconds = 0.0;
    for part in time.split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_when_an_object_was_read() {
        let log = "2026-11-30T20:49:06.000100Z  INFO other\n\
                   2026-11-30T20:49:06.250000Z DEBUG read object=HTTPRoute default/r000001\n\
                   2026-11-30T20:49:06.750000Z DEBUG read object=HTTPRoute default/r000011\n";
        let day = Duration::from_hours(20) + Duration::from_mins(49) + Duration::from_secs(6);
        let begin = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365) + day;
        let after = |object| read_after(log, object, begin).map(|after| after.as_millis());
        assert_eq!(after("r000011"), Some(750));
        assert_eq!(after("r000001"), Some(250));
        assert_eq!(after("r00000"), None);
        let later = begin + Duration::from_secs(1);
        assert_eq!(read_after(log, "r000001", later), Some(Duration::ZERO));
    }
}
