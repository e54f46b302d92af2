//! 1,000 endpoint slices change in a second, under 10,000 routes.
//!
//! Endpoints go from the store to the proxies without a reconcile, folded: far fewer responses than
//! changes, and in the end the newest of each.

use super::Scope;
use crate::folder::{self, Folder, Plan, Shape};
use crate::host::Log;
use crate::pair;
use crate::report::{Row, Unit};
use crate::seen::Seen;
use crate::stats::Summary;
use crate::wire::ENDPOINTS;
use std::time::{Duration, Instant};

/// Slices that change.
const SLICES: usize = 1_000;

/// In this time.
const IN: Duration = Duration::from_secs(1);

/// Nothing has passed for so long: the host is at rest.
const REST: Duration = Duration::from_secs(1);

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in scope.sizes(&[10_000]) {
        rows.extend(one(size, scope.runs(5)).await?);
    }
    Ok(rows)
}

async fn one(size: usize, runs: usize) -> anyhow::Result<Vec<Row>> {
    let folder = Folder::write(Plan {
        services: SLICES,
        ..Plan::routes(size, Shape::Hostnames)
    })?;
    let (host, mut envoy) = pair::serve(&folder, folder::data(&folder, 0), Log::Usual).await?;
    let served = SLICES.min(size);
    let (mut times, mut reconciles, mut responses, mut resources) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for revision in 1..=runs {
        envoy.seen.until_quiet(REST).await?;
        let before = host.metrics().await?.count("chiton_reconciles_total", &[]);
        let sent = envoy.seen.counts(ENDPOINTS);
        let last = write(&folder, revision).await?;
        let newest: Vec<String> = (0..served)
            .map(|service| folder::address(service, revision))
            .collect();
        let acked = until_in(&mut envoy.seen, &newest).await?;
        times.push(acked.saturating_duration_since(last));
        let now = envoy.seen.counts(ENDPOINTS);
        let after = host.metrics().await?.count("chiton_reconciles_total", &[]);
        reconciles.push(after - before);
        responses.push(now.responses - sent.responses);
        resources.push(now.resources - sent.resources);
    }
    // Counts are far below what a double holds exactly.
    #[allow(clippy::cast_precision_loss)]
    let of = |counts: Vec<u64>| Summary::of(counts.into_iter().map(|count| count as f64).collect());
    let storm = format!("{SLICES} endpoint slices changed in {IN:?}");
    let counted =
        |what: &str, counts| Row::new(&format!("{storm}: {what}"), size, Unit::Count, of(counts));
    let rows = [
        counted("reconciles", reconciles).map(|row| row.aim(crate::report::Aim::AtMost(0.0))),
        counted("responses", responses),
        counted("endpoint sets sent", resources),
        Row::new(
            &format!("{storm}: last file renamed → newest of all ACKed"),
            size,
            Unit::Seconds,
            Summary::seconds(&times),
        ),
    ];
    Ok(rows.into_iter().flatten().collect())
}

/// Changes all slices, evenly over the time. Returns when the last was changed.
async fn write(folder: &Folder, revision: usize) -> anyhow::Result<Instant> {
    let mut prepared = Vec::new();
    for service in 0..SLICES {
        prepared.push(folder.slice(service, revision)?);
    }
    let begin = tokio::time::Instant::now();
    let mut at = begin;
    for file in prepared {
        tokio::time::sleep_until(at).await;
        file.commit()?;
        at += IN / u32::try_from(SLICES)?;
    }
    Ok(Instant::now())
}

/// Waits until endpoint sets with all these addresses are acknowledged. Returns when the last was.
async fn until_in(seen: &mut Seen, newest: &[String]) -> anyhow::Result<Instant> {
    let is_in = |seen: &Seen| {
        let bodies: Vec<_> = seen.acked_of(ENDPOINTS).map(|(_, body)| body).collect();
        newest
            .iter()
            .all(|address| bodies.iter().any(|body| folder::holds(body, address)))
    };
    seen.until_all(is_in).await
}
