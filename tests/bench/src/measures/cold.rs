//! From the process's start until Envoy has acknowledged everything.
//!
//! Envoy is there first, its stream open and waiting, so that none of its back-off is measured. The
//! floor is Envoy's own time for the same resources from a bare loop that has them at hand: what the
//! host adds is reading and parsing files, reconciling, assembling and encoding.

use super::Scope;
use crate::bare::Bare;
use crate::envoy::Envoy;
use crate::folder::{self, Folder, Plan, Shape};
use crate::host::{Host, Log};
use crate::pair::tail;
use crate::relay;
use crate::report::{Aim, Row, Unit};
use crate::seen::Resources;
use crate::stats::Summary;
use anyhow::Context as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the whole start is measured.
const fn runs(size: usize) -> usize {
    match size {
        0..=1_000 => 10,
        1_001..=10_000 => 5,
        _ => 2,
    }
}

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in scope.sizes(&[1_000, 10_000, 100_000]) {
        let folder = Folder::write(Plan::routes(size, Shape::Hostnames))?;
        let (mut first, mut again, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..scope.runs(runs(size)).min(runs(size)) {
            let data = folder::data(&folder, run);
            let (time, resources) = host(&folder, &data).await?;
            first.push(time);
            again.push(host(&folder, &data).await?.0);
            floor.push(bare(&folder, resources).await?);
        }
        let floor = Summary::seconds(&floor);
        let rows_of = [
            (
                "cold start: process start → last ACK, empty data folder",
                first,
            ),
            (
                "cold start: the same, started again on its data folder",
                again,
            ),
        ];
        for (what, times) in rows_of {
            let row = Row::new(what, size, Unit::Seconds, Summary::seconds(&times));
            rows.extend(row.map(|row| row.floor(floor.clone()).aim(Aim::RatioOfMedian(2.0))));
        }
    }
    Ok(rows)
}

/// A start of the host, and what its proxy got.
async fn host(folder: &Folder, data: &Path) -> anyhow::Result<(Duration, Resources)> {
    let port = relay::free_port()?;
    let mut envoy = Envoy::start(port).await?;
    let host = Host::start(folder, data, port, Log::Usual)?;
    let last = envoy.seen.until_all(|seen| folder.is_in(seen)).await;
    let last = last.with_context(|| format!("the host says: {}", tail(&host.output())))?;
    let time = last - host.started;
    host.stop().await?;
    Ok((time, envoy.seen.acked().clone()))
}

/// A start of the bare loop.
async fn bare(folder: &Folder, resources: Resources) -> anyhow::Result<Duration> {
    let port = relay::free_port()?;
    let mut envoy = Envoy::start(port).await?;
    let begin = Instant::now();
    let _bare = Bare::start(port, resources).await?;
    let last = envoy.seen.until_all(|seen| folder.is_in(seen)).await?;
    Ok(last - begin)
}
