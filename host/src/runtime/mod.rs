//! A running host: every part started, connected, and stopped in order.

mod gate;
pub mod offline;
mod publish;

use crate::admin::{self, Admin, Metrics};
use crate::config::{Config, EnvoyMode};
use crate::envoy::{self, DataDir, ManagedEnvoy};
use crate::modules::{FailurePolicy, PolicyModule, Registry};
use crate::pipeline::channel::Events;
use crate::pipeline::{self, Driver, Engine, World};
use crate::status::Board;
use crate::store::Store;
use crate::synchronizer::holding::{AcceptedForms, Holder};
use crate::synchronizer::{Options, Synchronizer};
use crate::watcher::files;
use anyhow::Context as _;
use arc_swap::ArcSwap;
use chiton_xds::{Listener, Server};
use gate::Gate;
use publish::Publisher;
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
pub async fn serve(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let data_dir = Arc::new(DataDir::lock_soon(&config.data_dir).await?);
    let registry = prometheus::Registry::new();
    let store = Arc::new(Store::new());
    let events = Arc::new(Events::default());
    let xds = Server::new(chiton_xds::Options::default());
    let board = Arc::new(Board::new(xds.clone()));
    let engine = Engine::new(
        pipeline::Options::default(),
        pipeline::Metrics::new(&registry)?,
    )
    .context("cannot start threads for reconcilers")?;
    let parts = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (problems, problems_seen) = watch::channel(Vec::new());
    let admin_listener = bind("--admin-address", config.admin_address).await?;
    info!(address = %admin_listener.local_addr()?, "admin server");
    let listeners = xds_listeners(&config, &data_dir).await?;

    // What takes its time, side by side.
    let (modules, following, envoy) = tokio::join!(
        start_modules(&config, &data_dir, engine.world()),
        files::watch(&config.manifests, store.clone(), problems, parts.clone()),
        start_envoy(&data_dir, &config, &stop),
    );
    let envoy = match envoy {
        Err(_) if stop.is_cancelled() => return Ok(()),
        envoy => envoy?,
    };
    let (modules, following) = (modules?, following?);
    tasks.spawn(async move { following.await.context("the watcher stopped") });

    let admin = Admin {
        board: board.clone(),
        modules: modules.clone(),
        xds: xds.clone(),
        problems: problems_seen,
        metrics: Arc::new(Metrics::new(registry)?),
    };
    let stopped = parts.clone().cancelled_owned();
    tasks.spawn(async move {
        admin::serve(admin_listener, admin, stopped)
            .await
            .context("the admin server failed")
    });

    let server = xds.clone();
    let stopped = parts.clone().cancelled_owned();
    tasks.spawn(async move {
        server
            .serve(listeners, stopped)
            .await
            .context("the xDS server failed")
    });

    // An Envoy that outlived the last host says which addresses are its own.
    let gate = match &envoy {
        Some(envoy) => Some(Gate::new(bound(envoy).await)),
        None => None,
    };

    // Modules that are there from the start are live or refused before the first epoch.
    let (registry, inputs, world) = (modules.clone(), store.snapshot(), engine.world());
    tokio::task::spawn_blocking(move || registry.load_all(&inputs, &world))
        .await
        .context("loading modules panicked")?;
    tasks.spawn(modules.clone().follow(store.clone(), parts.clone()));
    let driver = Driver {
        store,
        modules: modules.subscribe(),
        events: events.clone(),
        engine,
    };
    tasks.spawn(driver.run(parts.clone()));
    let publisher = Publisher {
        holder: holder(&config, modules.clone()),
        modules,
        events,
        board,
        xds,
        gate,
    };
    tasks.spawn(publisher.run(parts.clone()));

    let result = tokio::select! {
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
    data_dir: &Arc<DataDir>,
    config: &Config,
    stop: &CancellationToken,
) -> anyhow::Result<Option<ManagedEnvoy>> {
    if config.envoy == EnvoyMode::None {
        return Ok(None);
    }
    let options = envoy::Options {
        access_log: config.access_log,
        ..envoy::Options::default()
    };
    let envoy = ManagedEnvoy::start(data_dir.clone(), options, stop.clone()).await?;
    Ok(Some(envoy))
}

/// Addresses that an adopted Envoy has; none of one that was just started.
async fn bound(envoy: &ManagedEnvoy) -> BTreeSet<SocketAddr> {
    if !envoy.is_adopted() {
        return BTreeSet::new();
    }
    envoy::bound(envoy.admin_socket())
        .await
        .unwrap_or_else(|error| {
            warn!(
                "the adopted Envoy does not say where it listens, so its ports look taken: {error}"
            );
            BTreeSet::new()
        })
}

/// Holds back what proxies refuse.
fn holder(config: &Config, modules: Arc<Registry>) -> Holder {
    let fails_closed = move |name: &str| {
        let PolicyModule::Live(module) = modules.live().policy(name) else {
            return false;
        };
        module.failure_policy == FailurePolicy::FailClosed
    };
    let synchronizer = Synchronizer::new(options(config));
    Holder::new(synchronizer, fails_closed, AcceptedForms::default())
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
