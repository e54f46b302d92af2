//! `make bench`: what things cost, each beside its floor, measured in the same run.
//!
//! Results go as JSON, a file for each measure, into a folder, and as a table into
//! `docs/performance.md`, which says what each measure means. Everything is on loopback, and ends
//! with this process.

mod bare;
mod envoy;
mod folder;
mod host;
mod machine;
mod measures;
mod pair;
mod relay;
mod report;
mod seen;
mod stats;
mod wire;

use anyhow::Context as _;
use chiton_tests::paths;
use clap::Parser;
use machine::Machine;
use measures::{Measure, Scope};
use report::Report;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measures what things cost, each beside its floor.
#[derive(Parser)]
struct Options {
    /// Only these measures, separated by commas; the table keeps the others as they were
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<Measure>,
    /// Fewer runs and the smallest size of each: a look, not for the record
    #[arg(long)]
    quick: bool,
    /// Numbers of routes, separated by commas, instead of the usual ones
    #[arg(long, value_delimiter = ',', value_name = "N")]
    sizes: Vec<usize>,
    /// Where the JSON goes [default: target/bench]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A page whose table is written anew
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Measure nothing: print the table of what was measured before
    #[arg(long)]
    table: bool,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let out = match &options.out {
        Some(out) => out.clone(),
        None => paths::workspace().join("target/bench"),
    };
    if !options.table {
        measure(&options, &out).await?;
    }
    show(
        &out,
        "bench",
        &Measure::ALL,
        "floor",
        options.page.as_deref(),
    )?;
    let peers = [Measure::Peers];
    show(
        &out,
        "bench-peers",
        &peers,
        "Envoy Gateway's",
        options.page.as_deref(),
    )
}

/// Prints a table of what is measured by now, and puts it into a page.
fn show(
    out: &Path,
    name: &str,
    measures: &[Measure],
    other: &str,
    page: Option<&Path>,
) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    for measure in measures {
        reports.extend(Report::load(out, measure.name())?);
    }
    if reports.is_empty() {
        return Ok(());
    }
    let section = report::section(&reports, other);
    println!("{section}");
    match page {
        Some(page) => report::insert(page, name, &section),
        None => Ok(()),
    }
}

async fn measure(options: &Options, out: &Path) -> anyhow::Result<()> {
    let scope = Scope {
        sizes: options.sizes.clone(),
        quick: options.quick,
    };
    let measures = if options.only.is_empty() {
        Measure::ALL.to_vec()
    } else {
        options.only.clone()
    };
    for measure in measures {
        let begin = Instant::now();
        let machine = Machine::now();
        let name = measure.name();
        let rows = measure.run(&scope).await.with_context(|| name.to_owned())?;
        let report = Report {
            name: name.to_owned(),
            machine,
            quick: options.quick,
            rows,
        };
        report.save(out)?;
        eprintln!(
            "{name}: {:.0} s, {:.1} cores busy before",
            begin.elapsed().as_secs_f64(),
            report.machine.busy,
        );
    }
    Ok(())
}
