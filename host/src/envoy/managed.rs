//! The Envoy that the host runs.
//!
//! ```text
//! start ──► adopt ───────────────┐
//!   │    (fits) ▲                ▼
//!   │           │             running ──► ended ──► back-off ──► launch ──► running
//!   └─► replace ┴─► launch ──────┘
//!        (does not fit)          └──► drain ──► SIGTERM ──► SIGKILL   (shutdown)
//! ```

use super::data_dir::DataDir;
use super::plan::{Plan, Running};
use super::record::Record;
use super::stop::stop;
use super::{Error, admin};
use backon::{BackoffBuilder, ExponentialBuilder};
use hyper::Method;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// An Envoy that ran for this long is restarted at once, not after the back-off of those before it.
const STEADY: Duration = Duration::from_secs(30);

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
        // A child token: stopping this Envoy does not stop the host.
        let shutdown = shutdown.child_token();
        let plan = Plan::new(dir, options).await?;
        let (running, adopted) = match plan.adopt().await? {
            Some(process) => (Running::Adopted(process), true),
            None => (plan.launch(&shutdown).await?, false),
        };
        let (told, pid) = watch::channel(Some(running.process().pid));
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

/// The addresses on which the Envoy with this admin interface listens now. Ports that it has
/// are not taken by somebody else.
pub async fn bound(admin_socket: &Path) -> std::io::Result<BTreeSet<SocketAddr>> {
    let text = admin::request(admin_socket, Method::GET, "/listeners?format=json").await?;
    Ok(addresses(&serde_json::from_slice(&text)?))
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
        told.send_replace(Some(running.process().pid));
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
        // Shutdown is the launch's affair, or it would leave an Envoy that nobody knows.
        match plan.launch(shutdown).await {
            Ok(running) => return Some(running),
            Err(_) if shutdown.is_cancelled() => return None,
            Err(error) => tracing::error!("{error}"),
        }
        delay = delays.next().unwrap_or(delay);
    }
}
