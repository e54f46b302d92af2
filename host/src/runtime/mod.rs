//! A running host: every part started, connected, and stopped in order.

mod gate;
pub mod offline;
mod publish;
mod ready;
mod start;

pub use ready::{Need, Readiness};

use crate::admin::{self, Admin, Metrics};
use crate::checkpoint::{self, Checkpoint, Keeper};
use crate::config::{Config, EnvoyMode};
use crate::envoy::{self, DataDir, ManagedEnvoy};
use crate::modules::{FailurePolicy, PolicyModule, Registry};
use crate::pipeline::channel::Events;
use crate::pipeline::{self, Engine, World};
use crate::status::Board;
use crate::store::Store;
use crate::synchronizer::holding::{AcceptedForms, Holder};
use crate::synchronizer::{Options, Synchronizer};
use crate::watcher::files;
use anyhow::Context as _;
use arc_swap::ArcSwap;
use chiton_xds::{Listener, Server};
use gate::Gate;
use publish::{Beside, Publisher};
use start::{Starting, read_manifests};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// This program, also after its file was replaced.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// How long parts may take to end once they are told to; then they are cut off.
const END_TIME: Duration = Duration::from_secs(5);

/// Runs a host until `stop` is cancelled, or until a part of it cannot go on.
// One part after the other, in the order in which they are started.
#[allow(clippy::too_many_lines)]
pub async fn serve(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let data_dir = Arc::new(DataDir::lock_soon(&config.data_dir).await?);
    let registry = prometheus::Registry::new();
    let store = Arc::new(Store::new());
    let events = Arc::new(Events::default());
    let xds = Server::new(chiton_xds::Options::default());
    let board = Arc::new(Board::new(xds.clone()));
    let mut engine = Engine::new(
        pipeline::Options {
            layer: config.batch_time,
            ..pipeline::Options::default()
        },
        pipeline::Metrics::new(&registry)?,
    )
    .context("cannot start threads for reconcilers")?;
    let checkpoint_metrics = checkpoint::Metrics::new(&registry)?;
    let parts = CancellationToken::new();
    let _end = parts.clone().drop_guard();
    let mut tasks = JoinSet::new();
    let (problems, problems_seen) = watch::channel(Vec::new());
    let admin_listener = bind("--admin-address", config.admin_address).await?;
    info!(address = %admin_listener.local_addr()?, "admin server");
    let listeners = xds_listeners(&config, &data_dir).await?;

    // What takes its time, side by side. What was served before need not wait for manifests.
    let reading = tokio::spawn(read_manifests(
        config.manifests.clone(),
        config.checkpoint_interval.map(|_| data_dir.checkpoint()),
        store.clone(),
        problems,
        parts.clone(),
    ));
    let envoy = start_envoy(data_dir.clone(), config.clone(), stop.clone());
    let envoy = tokio::spawn(envoy);
    let (modules, saved) = tokio::join!(
        start_modules(&config, &data_dir, engine.world()),
        load_checkpoint(&config, &data_dir),
    );
    let (modules, saved) = match (modules, saved) {
        (Ok(modules), Ok(saved)) => (modules, saved),
        (Err(error), _) | (_, Err(error)) => {
            give_up(envoy.await?.unwrap_or_default(), false).await;
            return Err(error);
        }
    };
    engine.restore(saved.results);
    let kinds = files::KINDS.iter().map(files::Known::group_kind).collect();
    let readiness = Arc::new(Readiness::new(kinds, store.clone(), modules.clone()));
    let admin = Admin {
        readiness: readiness.clone(),
        board: board.clone(),
        modules: modules.clone(),
        xds: xds.clone(),
        problems: problems_seen,
        metrics: Arc::new(Metrics::new(registry)?),
    };
    // Before Envoy is there: it may take its time, and asks at once.
    start_servers(admin_listener, admin, listeners, &mut tasks, &parts);
    let envoy = match envoy.await? {
        Err(_) if stop.is_cancelled() => return Ok(()),
        envoy => envoy?,
    };
    let mut publisher = Publisher::new(
        holder(&config, modules.clone(), saved.accepted),
        modules.clone(),
        events.clone(),
        board.clone(),
        xds.clone(),
        readiness.clone(),
        beside(envoy.as_ref()).await,
    );
    let restored = !saved.fleets.is_empty();
    publisher.restore(saved.fleets);
    let keeper = config.checkpoint_interval.map(|interval| Keeper {
        path: data_dir.checkpoint(),
        interval,
        xds,
        board,
        changes: publisher.saves(),
        metrics: checkpoint_metrics,
    });
    let starting = Starting {
        reading,
        restored,
        store,
        modules,
        events,
        engine,
        readiness,
        publisher,
        keeper,
    };
    let started = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        started = starting.start(&mut tasks, &parts) => started,
    };
    if let Err(error) = started {
        give_up(envoy, restored).await;
        parts.cancel();
        end(tasks).await;
        return Err(error);
    }

    let result = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        Some(ended) = tasks.join_next() => Err(ended
            .context("a part of the host panicked")
            .and_then(|result| result)
            .err()
            .unwrap_or_else(|| anyhow::anyhow!("a part of the host ended before its time"))),
    };
    info!("stopping");
    // Envoy drains while everything else still works.
    if let Some(envoy) = envoy {
        envoy.stop().await;
    }
    parts.cancel();
    end(tasks).await;
    result
}

/// What was served before; nothing if that is not known or not wanted.
async fn load_checkpoint(config: &Config, data_dir: &DataDir) -> anyhow::Result<Checkpoint> {
    if config.checkpoint_interval.is_none() {
        return Ok(Checkpoint::default());
    }
    let path = data_dir.checkpoint();
    tokio::task::spawn_blocking(move || checkpoint::load(&path))
        .await
        .map(Option::unwrap_or_default)
        .context("reading the checkpoint panicked")
}

/// What becomes of Envoy when the host could not start: one that serves nothing ends with it. One that
/// serves what it had before is left to the next host, as after a crash.
async fn give_up(envoy: Option<ManagedEnvoy>, restored: bool) {
    match envoy {
        Some(envoy) if !restored && !envoy.is_adopted() => envoy.stop().await,
        Some(envoy) => info!(
            pid = *envoy.pid().borrow(),
            "Envoy goes on with what was served before; the next host takes it over"
        ),
        None => {}
    }
}

/// Waits until all parts have ended, but not for ever: a client of the admin server, for example, may
/// never finish its request.
async fn end(mut tasks: JoinSet<anyhow::Result<()>>) {
    let ended = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                error!(%error, "a part of the host did not end well");
            }
        }
    };
    // What has not ended by then is cut off as it is dropped.
    let _ = tokio::time::timeout(END_TIME, ended).await;
}

/// Starts what people and proxies connect to.
fn start_servers(
    listener: TcpListener,
    admin: Admin,
    listeners: Vec<Listener>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    parts: &CancellationToken,
) {
    let xds = admin.xds.clone();
    let stopped = parts.clone().cancelled_owned();
    tasks.spawn(async move {
        admin::serve(listener, admin, stopped)
            .await
            .context("the admin server failed")
    });
    let stopped = parts.clone().cancelled_owned();
    tasks.spawn(async move {
        xds.serve(listeners, stopped)
            .await
            .context("the xDS server failed")
    });
}

/// Where proxies connect: on TCP if it is wanted, and the managed Envoy on a socket.
async fn xds_listeners(config: &Config, data_dir: &DataDir) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    if let Some(address) = config.xds_address {
        let listener = bind("--xds-address", address).await?;
        info!(address = %listener.local_addr()?, "xDS server");
        listeners.push(Listener::Tcp(listener));
    }
    if config.envoy == EnvoyMode::Managed {
        listeners.push(Listener::Unix(unix_listener(&data_dir.xds_socket())?));
    }
    Ok(listeners)
}

/// Loads the built-in reconcilers.
async fn start_modules(
    config: &Config,
    data_dir: &Arc<DataDir>,
    world: Arc<ArcSwap<World>>,
) -> anyhow::Result<Arc<Registry>> {
    let (wanted, data_dir) = (config.reconcilers.clone().into(), data_dir.clone());
    let start = move || Registry::start(&wanted, data_dir.path(), world, THIS_PROGRAM.into());
    let started = tokio::task::spawn_blocking(start);
    Ok(started.await.context("loading modules panicked")??)
}

/// Starts Envoy, or adopts one, if it is this host's to run. It ends when `stop` is cancelled, also in the middle of its start.
async fn start_envoy(
    data_dir: Arc<DataDir>,
    config: Config,
    stop: CancellationToken,
) -> anyhow::Result<Option<ManagedEnvoy>> {
    if config.envoy == EnvoyMode::None {
        for pid in envoy::orphans(&data_dir) {
            warn!(
                pid,
                "an Envoy that an earlier host started still runs, serves what it last had, and keeps its \
                 ports from others: stop it (kill {pid}), or take it over with --envoy managed"
            );
        }
        return Ok(None);
    }
    let options = envoy::Options {
        access_log: config.access_log,
        ..envoy::Options::default()
    };
    let envoy = ManagedEnvoy::start(data_dir, options, stop).await?;
    Ok(Some(envoy))
}

/// What must be known of a managed Envoy before it is sent listeners: an adopted one has addresses.
async fn beside(envoy: Option<&ManagedEnvoy>) -> Option<Beside> {
    let envoy = envoy?;
    let socket = envoy.admin_socket();
    let bound = if envoy.is_adopted() {
        envoy::bound(socket).await.unwrap_or_else(|error| {
            warn!(
                "the adopted Envoy does not say where it listens, so its ports look taken: {error}"
            );
            BTreeSet::new()
        })
    } else {
        BTreeSet::new()
    };
    Some(Beside::new(Gate::new(bound), socket.to_owned()))
}

/// Holds back what proxies refuse.
fn holder(config: &Config, modules: Arc<Registry>, accepted: AcceptedForms) -> Holder {
    let fails_closed = move |name: &str| {
        let PolicyModule::Live(module) = modules.live().policy(name) else {
            return false;
        };
        module.failure_policy == FailurePolicy::FailClosed
    };
    Holder::new(Synchronizer::new(options(config)), fails_closed, accepted)
}

/// What the synchronizer must know of this configuration.
fn options(config: &Config) -> Options {
    Options {
        bind_address: config.bind_address,
        low_port_offset: config.low_port_offset,
        access_log: config.access_log,
        fleet_per_gateway: false,
    }
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; free the port or change {flag}"))
}

/// A socket in the locked data folder: one that is there is left from a host that died.
fn unix_listener(path: &std::path::Path) -> anyhow::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error)
                .with_context(|| format!("cannot remove the old socket {}", path.display()));
        }
        _ => {}
    }
    UnixListener::bind(path).with_context(|| format!("cannot make the socket {}", path.display()))
}
