//! Resident memory of the host at rest, with one proxy, beside the bytes of its inputs.

use super::Scope;
use crate::folder::{self, Folder, Plan, Shape};
use crate::host::Log;
use crate::machine;
use crate::pair;
use crate::report::{self, Aim, Row, Unit};
use crate::stats::Summary;
use std::time::Duration;

/// Nothing has passed for so long: the host is at rest.
const REST: Duration = Duration::from_secs(2);

/// The most that is aimed at; none for other sizes.
fn aim(size: usize) -> Option<Aim> {
    const MIB: f64 = 1_048_576.0;
    match size {
        10_000 => Some(Aim::AtMost(100.0 * MIB)),
        100_000 => Some(Aim::AtMost(800.0 * MIB)),
        _ => None,
    }
}

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in scope.sizes(&[1_000, 10_000, 100_000]) {
        let folder = Folder::write(Plan::routes(size, Shape::Hostnames))?;
        let data = folder::data(&folder, 0);
        let (host, mut envoy) = pair::serve(&folder, data, Log::Usual).await?;
        envoy.seen.until_quiet(REST).await?;
        let ours = machine::memory(host.pid()?)?;
        let theirs = machine::memory(envoy.pid()?)?;
        // Far below what a double holds exactly.
        #[allow(clippy::cast_precision_loss)]
        let (inputs, routes) = (folder.bytes()? as f64, size as f64);
        let show = |bytes| report::show(bytes, Unit::Bytes);
        let note = format!(
            "{} a route; at most {} on the way; Envoy has {}",
            show(ours.resident / routes),
            show(ours.peak),
            show(theirs.resident)
        );
        let what = "resident memory; floor: bytes of the manifests";
        let row = Row::new(what, size, Unit::Bytes, Summary::of(vec![ours.resident]));
        let row = row.map(|row| row.floor(Summary::of(vec![inputs])).note(note));
        rows.extend(row.map(|row| match aim(size) {
            Some(aim) => row.aim(aim),
            None => row,
        }));
    }
    Ok(rows)
}
