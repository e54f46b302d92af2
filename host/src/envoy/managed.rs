//! The Envoy that the host runs.
//!
//! ```text
//! start ──► adopt ───────────────┐
//!   │    (fits) ▲                ▼
//!   │           │             running ──► ended ──► back-off ──► launch ──► running
//!   └─► replace ┴─► launch ──────┘
//!        (does not fit)          └──► drain ──► SIGTERM ──► SIGKILL   (shutdown)
//! ```

use super::data_dir::{DataDir, file_error, write_whole};
use super::process::{self, Process};
use super::record::Record;
use super::{Error, admin, binary, bootstrap};
use backon::{BackoffBuilder, ExponentialBuilder};
use hyper::Method;
use nix::sys::signal::Signal;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long Envoy may take until its admin interface answers.
const START_TIME: Duration = Duration::from_secs(15);
/// How long connections may take to end when Envoy is stopped. Their clients are told to close them.
const DRAIN_TIME: Duration = Duration::from_secs(3);
/// How long Envoy may take to end after SIGTERM.
const TERM_TIME: Duration = Duration::from_secs(3);
/// How long SIGKILL may take: longer only where the kernel is stuck.
const KILL_TIME: Duration = Duration::from_secs(3);
/// How long listeners that are removed or changed drain (`--drain-time-s`).
const LISTENER_DRAIN_SECONDS: &str = "10";
/// An Envoy that ran for this long is restarted at once, not after the back-off of those before it.
const STEADY: Duration = Duration::from_secs(30);
/// Lines of Envoy's log that are repeated when it ends.
const LAST_LINES: usize = 10;
/// Bytes of Envoy's log that are read for them.
const LAST_BYTES: u64 = 16 * 1024;

/// How Envoy is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The binary; none: what [`super::find`] finds.
    pub binary: Option<PathBuf>,
    /// Whether Envoy's standard output, to which access logs go, is the host's. An adopted Envoy keeps
    /// the output that it was started with.
    pub access_log: bool,
    /// Worker threads; none: one for each CPU.
    pub concurrency: Option<u32>,
}

/// A running Envoy and the task that looks after it.
///
/// Dropping it without [`ManagedEnvoy::stop`] leaves Envoy running, as a crash of the host does.
#[derive(Debug)]
pub struct ManagedEnvoy {
    admin: PathBuf,
    adopted: bool,
    pid: watch::Receiver<Option<i32>>,
    shutdown: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl ManagedEnvoy {
    /// Adopts the Envoy of an earlier host, or starts one, and looks after it until `shutdown`. Returns
    /// when its admin interface answers. Fails if there is no binary or it does not come up; later ends
    /// are answered by restarts, with back-off.
    pub async fn start(
        dir: Arc<DataDir>,
        options: Options,
        shutdown: CancellationToken,
    ) -> Result<Self, Error> {
        let plan = Plan::new(dir, options).await?;
        let (running, adopted) = match plan.adopt().await? {
            Some(process) => (Running::Adopted(process), true),
            None => (plan.launch().await?, false),
        };
        let (told, pid) = watch::channel(running.pid());
        // A child token: stopping this Envoy does not stop the host.
        let shutdown = shutdown.child_token();
        let admin = plan.dir.admin_socket();
        let task = tokio::spawn(look_after(plan, running, told, shutdown.clone()));
        Ok(Self {
            admin,
            adopted,
            pid,
            shutdown,
            task: Some(task),
        })
    }

    /// The socket of its admin interface.
    #[must_use]
    pub fn admin_socket(&self) -> &Path {
        &self.admin
    }

    /// Whether it was started by an earlier host.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Its process id; none while it is being restarted. Changes can be awaited.
    #[must_use]
    pub fn pid(&self) -> watch::Receiver<Option<i32>> {
        self.pid.clone()
    }

    /// Asks its admin interface, for example `/config_dump`.
    pub async fn get(&self, path: &str) -> std::io::Result<Vec<u8>> {
        Ok(admin::request(&self.admin, Method::GET, path).await?.into())
    }

    /// The addresses on which it listens now. Ports that it has are not taken by somebody else.
    pub async fn bound(&self) -> std::io::Result<BTreeSet<SocketAddr>> {
        let text = self.get("/listeners?format=json").await?;
        Ok(addresses(&serde_json::from_slice(&text)?))
    }

    /// Drains and stops it. Takes a few seconds at most.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        self.wait().await;
    }

    /// Waits until it has been stopped through the token that it was started with.
    pub async fn stopped(mut self) {
        self.wait().await;
    }

    async fn wait(&mut self) {
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "looking after Envoy failed");
        }
    }
}

impl Drop for ManagedEnvoy {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn addresses(listeners: &serde_json::Value) -> BTreeSet<SocketAddr> {
    listeners["listener_statuses"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|listener| {
            let socket = &listener["local_address"]["socket_address"];
            let address = socket["address"].as_str()?.parse().ok()?;
            let port = u16::try_from(socket["port_value"].as_u64()?).ok()?;
            Some(SocketAddr::new(address, port))
        })
        .collect()
}

/// How this host starts Envoy.
#[derive(Debug)]
struct Plan {
    dir: Arc<DataDir>,
    binary: PathBuf,
    arguments: Vec<OsString>,
    bootstrap: String,
    access_log: bool,
    fingerprint: String,
}

impl Plan {
    async fn new(dir: Arc<DataDir>, options: Options) -> Result<Self, Error> {
        let binary = match options.binary {
            Some(binary) => binary,
            None => binary::find()?,
        };
        let version = version(&binary).await?;
        let bootstrap = bootstrap::managed(&dir.xds_socket(), &dir.admin_socket());
        let arguments = arguments(&dir, options.concurrency);
        let mut digest = Sha256::new();
        let words = arguments.iter().map(|word| word.as_encoded_bytes());
        let access_log: &[u8] = if options.access_log { b"log" } else { b"" };
        for part in [version.as_bytes(), bootstrap.as_bytes(), access_log]
            .into_iter()
            .chain(words)
        {
            digest.update(part);
            digest.update([0]);
        }
        Ok(Self {
            dir,
            binary,
            arguments,
            bootstrap,
            access_log: options.access_log,
            fingerprint: format!("{:x}", digest.finalize()),
        })
    }

    /// The Envoy of an earlier host, if it fits. Any that does not is drained and stopped.
    async fn adopt(&self) -> Result<Option<Process>, Error> {
        let bootstrap = self.dir.bootstrap();
        let record = Record::read(&self.dir);
        let mut adopted = None;
        // The record may be missing: the host can have died before it wrote it.
        for process in process::with_argument(&bootstrap) {
            let fits = record.as_ref().is_some_and(|record| {
                record.pid == process.pid
                    && record.start_time == process.start_time
                    && record.fingerprint == self.fingerprint
            });
            if fits && adopted.is_none() && self.answers().await {
                tracing::info!(pid = process.pid, "adopted the Envoy of an earlier host");
                adopted = Some(process);
                continue;
            }
            tracing::info!(
                pid = process.pid,
                "draining the Envoy of an earlier host, which was started otherwise"
            );
            if !stop(process, &self.dir.admin_socket()).await {
                return Err(Error::Stuck(process.pid));
            }
        }
        Ok(adopted)
    }

    /// Starts Envoy and waits until its admin interface answers.
    async fn launch(&self) -> Result<Running, Error> {
        write_whole(&self.dir.bootstrap(), &self.bootstrap)?;
        let mut child = self.spawn()?;
        let process = child
            .id()
            .and_then(|pid| Process::of(i32::try_from(pid).ok()?));
        if let Some(process) = process {
            let record = Record {
                pid: process.pid,
                start_time: process.start_time,
                fingerprint: self.fingerprint.clone(),
            };
            if let Err(error) = record.write(&self.dir) {
                process.signal(Signal::SIGKILL);
                return Err(error);
            }
        }
        let up = tokio::select! {
            ended = child.wait() => Err(match ended {
                Ok(status) => format!("it ended with {status}"),
                Err(error) => error.to_string(),
            }),
            up = tokio::time::timeout(START_TIME, self.up()) => {
                up.map_err(|_| format!("it did not answer within {START_TIME:?}"))
            }
        };
        match (up, process) {
            (Ok(()), Some(process)) => {
                tracing::info!(pid = process.pid, binary = %self.binary.display(), "Envoy runs");
                Ok(Running::Child(child, process))
            }
            (up, process) => {
                if let Some(process) = process {
                    process.signal(Signal::SIGKILL);
                }
                let _ = child.wait().await;
                Err(Error::Start {
                    reason: up.err().unwrap_or_else(|| "it ended".to_owned()),
                    log: self.last_lines(),
                })
            }
        }
    }

    fn spawn(&self) -> Result<Child, Error> {
        let log = self.dir.envoy_log();
        let _ = std::fs::rename(&log, log.with_extension("log.1"));
        let stderr = File::create(&log).map_err(file_error("make", &log))?;
        let mut command = std::process::Command::new(&self.binary);
        command
            .args(&self.arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(if self.access_log {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stderr(stderr)
            // Ctrl-C in the terminal reaches the host alone, which then drains Envoy.
            .process_group(0);
        Command::from(command)
            .spawn()
            .map_err(file_error("run", &self.binary))
    }

    async fn up(&self) {
        while !self.answers().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn answers(&self) -> bool {
        admin::request(&self.dir.admin_socket(), Method::GET, "/ready")
            .await
            .is_ok()
    }

    fn last_lines(&self) -> String {
        last_lines(&self.dir.envoy_log()).unwrap_or_default()
    }
}

fn arguments(dir: &DataDir, concurrency: Option<u32>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "--config-path".into(),
        dir.bootstrap().into(),
        // Hot restart is not used. Without it, Envoy needs no base id, so that none can clash, and
        // leaves no shared memory behind when it is killed.
        "--disable-hot-restart".into(),
        "--drain-time-s".into(),
        LISTENER_DRAIN_SECONDS.into(),
        // Every response of a draining listener asks its client to close, not a growing share of them.
        "--drain-strategy".into(),
        "immediate".into(),
        "--log-level".into(),
        "warning".into(),
    ];
    if let Some(concurrency) = concurrency {
        arguments.extend(["--concurrency".into(), concurrency.to_string().into()]);
    }
    arguments
}

async fn version(binary: &Path) -> Result<String, Error> {
    let output = Command::new(binary)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(file_error("run", binary))?;
    if !output.status.success() {
        return Err(Error::NoBinary(format!(
            "{} --version failed with {}; it does not look like Envoy",
            binary.display(),
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .find(|line| line.contains("version:"))
        .unwrap_or_default()
        .trim()
        .to_owned())
}

/// An Envoy that runs.
#[derive(Debug)]
enum Running {
    /// Started by this process, which must reap it.
    Child(Child, Process),
    /// Started by an earlier host.
    Adopted(Process),
}

impl Running {
    fn process(&self) -> Process {
        match self {
            Self::Child(_, process) | Self::Adopted(process) => *process,
        }
    }

    fn pid(&self) -> Option<i32> {
        Some(self.process().pid)
    }

    /// Waits until it ends, and says how.
    async fn ended(&mut self) -> String {
        match self {
            Self::Child(child, _) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Adopted(process) => {
                process.ended().await;
                "unknown status".to_owned()
            }
        }
    }
}

/// Restarts Envoy whenever it ends, until `shutdown`; then stops it.
async fn look_after(
    plan: Plan,
    mut running: Running,
    told: watch::Sender<Option<i32>>,
    shutdown: CancellationToken,
) {
    loop {
        let since = Instant::now();
        let how = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            how = running.ended() => how,
        };
        told.send_replace(None);
        tracing::error!(
            "Envoy ended ({how}); starting it again. It last said:\n{}",
            plan.last_lines()
        );
        let steady = since.elapsed() >= STEADY;
        let Some(next) = restart(&plan, steady, &shutdown).await else {
            let _ = Record::remove(&plan.dir);
            return;
        };
        running = next;
        told.send_replace(running.pid());
    }
    let process = running.process();
    if stop(process, &plan.dir.admin_socket()).await {
        // Reaps a child.
        running.ended().await;
        let _ = Record::remove(&plan.dir);
        tracing::info!(pid = process.pid, "Envoy stopped");
    } else {
        tracing::error!(
            pid = process.pid,
            "Envoy cannot be stopped; stop it yourself"
        );
    }
    told.send_replace(None);
}

/// Starts Envoy, as often as it takes; none on shutdown.
async fn restart(plan: &Plan, steady: bool, shutdown: &CancellationToken) -> Option<Running> {
    let mut delays = ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(10))
        .without_max_times()
        .build();
    let mut delay = if steady {
        Duration::ZERO
    } else {
        delays.next().unwrap_or_default()
    };
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep(delay) => {}
        }
        // Not cut short by shutdown, which would leave an Envoy that nobody knows.
        match plan.launch().await {
            Ok(running) => return Some(running),
            Err(error) => tracing::error!("{error}"),
        }
        delay = delays.next().unwrap_or(delay);
    }
}

/// Drains an Envoy, and ends it within seconds. Returns whether it ended.
async fn stop(process: Process, admin_socket: &Path) -> bool {
    tokio::select! {
        () = drain(admin_socket) => {}
        () = process.ended() => return true,
        () = tokio::time::sleep(DRAIN_TIME) => {}
    }
    process.signal(Signal::SIGTERM);
    if process.ended_within(TERM_TIME).await {
        return true;
    }
    tracing::warn!(pid = process.pid, "Envoy does not end; killing it");
    process.signal(Signal::SIGKILL);
    process.ended_within(KILL_TIME).await
}

/// Tells clients to close their connections, and waits until they have. Returns at once where Envoy
/// does not answer.
async fn drain(admin_socket: &Path) {
    for path in ["/healthcheck/fail", "/drain_listeners?graceful"] {
        if admin::request(admin_socket, Method::POST, path)
            .await
            .is_err()
        {
            return;
        }
    }
    while let Ok(connections) = connections(admin_socket).await
        && connections > 0
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Connections on listeners; those of the admin interface do not count.
async fn connections(admin_socket: &Path) -> std::io::Result<u64> {
    let filter = "/stats?filter=%5Elistener%5C.%5B%5Ea%5D.*%5C.downstream_cx_active%24";
    let text = admin::request(admin_socket, Method::GET, filter).await?;
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| !line.contains(".worker_"))
        .filter_map(|line| line.rsplit_once(": ")?.1.trim().parse::<u64>().ok())
        .sum())
}

fn last_lines(log: &Path) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    Ok(lines.get(first..).unwrap_or_default().join("\n"))
}
