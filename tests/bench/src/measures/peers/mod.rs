//! Beside Envoy Gateway, for the record: file against file, on the same routes.
//!
//! Both start and supervise their own Envoy, and what they do is seen by requests: a route is served
//! in a new form when Envoy answers with its mark. The folders differ in the class and in the kind of
//! the backend, which each has of its own.

mod gateway;

use super::Scope;
use crate::folder::{self, Dialect, Folder, Plan, Shape};
use crate::machine;
use crate::relay;
use crate::report::{Row, Unit};
use crate::stats::Summary;
use anyhow::Context as _;
use chiton_tests::process::{Process, kill_now};
use chiton_tests::{http, paths};
use gateway::Gateway;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How often a route is asked for.
const POLL: Duration = Duration::from_millis(5);

/// How long a change may take: Envoy Gateway's file provider needs minutes for 1,000 routes.
const PATIENCE: Duration = Duration::from_mins(10);

/// Takes the measure.
pub async fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in scope.sizes(&[100, 1_000]) {
        let runs = if size > 100 { 2 } else { scope.runs(10) };
        let ours = Times::of(Dialect::Chiton, size, 10).await?;
        let theirs = Times::of(Dialect::EnvoyGateway, size, runs).await?;
        rows.extend(compare(size, &ours, &theirs));
    }
    Ok(rows)
}

fn compare(size: usize, ours: &Times, theirs: &Times) -> Vec<Row> {
    let row = |what: &str, unit, of: fn(&Times) -> Option<Summary>| {
        Some(Row::new(what, size, unit, of(ours))?.floor(of(theirs)))
    };
    let rows = [
        row(
            "process start → last route served",
            Unit::Seconds,
            |times| Summary::of(vec![times.cold]),
        ),
        row(
            "file renamed → route served in its new form",
            Unit::Seconds,
            |times| Summary::of(times.changes.clone()),
        )
        .map(|row| {
            let runs = theirs.changes.len();
            row.note(format!("{runs} changes with Envoy Gateway"))
        }),
        row(
            "processor time of the control plane for a change",
            Unit::Seconds,
            |times| Summary::of(vec![times.cpu]),
        ),
        row(
            "resident memory of the control plane",
            Unit::Bytes,
            |times| Summary::of(vec![times.resident]),
        ),
    ];
    rows.into_iter().flatten().collect()
}

/// What one control plane took.
struct Times {
    /// Seconds from the start until the last route was served.
    cold: f64,
    /// Seconds of each change.
    changes: Vec<f64>,
    /// Seconds of processor time for a change.
    cpu: f64,
    /// Bytes.
    resident: f64,
}

impl Times {
    async fn of(dialect: Dialect, size: usize, runs: usize) -> anyhow::Result<Self> {
        let folder = Folder::write(Plan {
            dialect,
            ..Plan::routes(size, Shape::Hostnames)
        })?;
        let _backend = backend(&folder)?;
        let running = Running::start(dialect, &folder).await?;
        let last = size - 1;
        served(&folder, last, last).await?;
        let cold = running.started().elapsed().as_secs_f64();
        quiet(running.pid()?).await?;
        let used = machine::cpu_seconds(running.pid()?)?;
        let mut changes = Vec::new();
        for run in 0..runs {
            let (route, revision) = (run % folder::OWN.min(size), size + run);
            let prepared = folder.route(route, revision)?;
            let begin = Instant::now();
            prepared.commit()?;
            served(&folder, route, revision).await?;
            changes.push(begin.elapsed().as_secs_f64());
            quiet(running.pid()?).await?;
        }
        let used = machine::cpu_seconds(running.pid()?)? - used;
        Ok(Self {
            cold,
            // At most a few runs.
            #[allow(clippy::cast_precision_loss)]
            cpu: used / changes.len().max(1) as f64,
            changes,
            resident: machine::memory(running.pid()?)?.resident,
        })
    }
}

/// A control plane with its Envoy.
enum Running {
    Chiton(Chiton),
    EnvoyGateway(Gateway),
}

/// A host with a managed Envoy.
struct Chiton {
    process: Process,
    started: Instant,
    data: std::path::PathBuf,
}

impl Running {
    async fn start(dialect: Dialect, folder: &Folder) -> anyhow::Result<Self> {
        if dialect == Dialect::EnvoyGateway {
            return Ok(Self::EnvoyGateway(Gateway::start(&folder.path()).await?));
        }
        let data = folder::data(folder, 0);
        let mut command = Command::new(paths::binary("chiton")?);
        command
            .arg("serve")
            .args([
                "--admin-address",
                &format!("127.0.0.1:{}", relay::free_port()?),
            ])
            .arg("--manifests")
            .arg(folder.path())
            .arg("--data-dir")
            .arg(&data)
            .env("ENVOY", paths::envoy()?);
        let started = Instant::now();
        let process = Process::start(&mut command, &data.with_extension("log"))?;
        Ok(Self::Chiton(Chiton {
            process,
            started,
            data,
        }))
    }

    fn started(&self) -> Instant {
        match self {
            Self::Chiton(chiton) => chiton.started,
            Self::EnvoyGateway(gateway) => gateway.started,
        }
    }

    fn pid(&self) -> anyhow::Result<u32> {
        match self {
            Self::Chiton(chiton) => chiton
                .process
                .pid()
                .with_context(|| format!("the host has ended: {}", chiton.process.output())),
            Self::EnvoyGateway(gateway) => gateway.pid(),
        }
    }
}

impl Drop for Chiton {
    fn drop(&mut self) {
        if let Some(pid) = self.process.pid() {
            kill_now(pid);
        }
        let record = std::fs::read_to_string(self.data.join("envoy-process.json"));
        let record = record
            .ok()
            .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        let envoy = record.and_then(|record| record["pid"].as_u64());
        if let Some(pid) = envoy.and_then(|pid| u32::try_from(pid).ok()) {
            kill_now(pid);
        }
    }
}

/// The backend that all routes lead to.
fn backend(folder: &Folder) -> anyhow::Result<Process> {
    let mut command = Command::new(paths::binary("chiton-example-backend")?);
    command.arg(format!(
        "bench={}:{}",
        folder::BACKEND,
        folder::BACKEND_PORT
    ));
    Process::start(&mut command, &folder.beside("backend.log"))
}

/// Waits until a route is served in a form.
async fn served(folder: &Folder, route: usize, revision: usize) -> anyhow::Result<()> {
    let mark = folder::mark(revision);
    let ask = http::get(folder.port(), "/").host(&format!("{}.bench.test", folder::name(route)));
    let end = Instant::now() + PATIENCE;
    loop {
        match ask.send().await {
            Ok(answer) if answer.status == 200 && answer.header("x-rev") == mark => return Ok(()),
            answer if Instant::now() > end => {
                anyhow::bail!("route {route} is not served with {mark}: {answer:?}")
            }
            _ => tokio::time::sleep(POLL).await,
        }
    }
}

/// Waits until a process does next to nothing for a second.
async fn quiet(pid: u32) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let before = machine::cpu_seconds(pid)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        if machine::cpu_seconds(pid)? - before < 0.05 {
            return Ok(());
        }
    }
    anyhow::bail!("process {pid} does not come to rest")
}
