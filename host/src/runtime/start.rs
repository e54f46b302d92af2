//! What is started once proxies can connect: reading objects, loading modules, and what works on them.

use super::publish::Publisher;
use super::ready::Readiness;
use crate::checkpoint::{self, Keeper};
use crate::modules::Registry;
use crate::pipeline::channel::Events;
use crate::pipeline::{Driver, Engine};
use crate::store::Store;
use crate::watcher::files;
use anyhow::Context as _;
use chiton_ir::GroupKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How long an empty folder of manifests is not believed, where something was served before: at the
/// start of a machine its file system may not be mounted yet.
const BARE_PATIENCE: Duration = Duration::from_secs(15);

/// How long the first epoch waits for modules. Loading one takes tenths of a second; a file system that
/// hangs must not keep from everybody what does not need the module.
const MODULE_PATIENCE: Duration = Duration::from_secs(30);

/// The task that reads objects for the first time.
type Reading = JoinHandle<Result<JoinHandle<()>, files::Error>>;

/// Reads objects, and starts to follow them. Broken files are what they were in `checkpoint`, if it
/// is there.
pub(super) async fn read_manifests(
    dir: PathBuf,
    checkpoint: Option<PathBuf>,
    store: Arc<Store>,
    problems: watch::Sender<Vec<files::Problem>>,
    parts: CancellationToken,
) -> Result<JoinHandle<()>, files::Error> {
    let checkpoint = checkpoint.filter(|path| path.exists());
    let earlier = checkpoint.map_or_else(files::Earlier::default, |path| {
        files::Earlier::new(move || checkpoint::inputs(&path))
    });
    files::watch(&dir, earlier, store, problems, parts).await
}

/// What is started once proxies can connect.
pub(super) struct Starting {
    /// Ends when objects have been read, with the task that follows them.
    pub reading: Reading,
    /// Whether proxies are served what they were served before.
    pub restored: bool,
    pub store: Arc<Store>,
    pub modules: Arc<Registry>,
    pub events: Arc<Events>,
    pub engine: Engine,
    pub readiness: Arc<Readiness>,
    pub publisher: Publisher,
    pub keeper: Option<Keeper>,
}

impl Starting {
    /// Reads objects, loads modules, and starts what works on them.
    pub async fn start(
        self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        parts: &CancellationToken,
    ) -> anyhow::Result<()> {
        let (store, modules) = (self.store, self.modules);
        let following = self.reading.await.context("reading manifests panicked")??;
        tasks.spawn(async move { following.await.context("the watcher stopped") });
        if self.restored {
            wait_for_objects(&store, &self.readiness).await;
        }
        // Modules that are there from the start are live or refused before the first epoch.
        let (registry, inputs) = (modules.clone(), store.snapshot());
        let world = self.engine.world();
        let loading = tokio::task::spawn_blocking(move || {
            registry.load_within(&inputs, &world, MODULE_PATIENCE)
        });
        let loaded = match tokio::time::timeout(MODULE_PATIENCE, loading).await {
            Ok(loaded) => loaded.context("loading modules panicked")?,
            // What was live before the restart is compiled again, and takes its time.
            Err(_) => false,
        };
        if !loaded {
            warn!(
                modules = ?self.readiness.go_without_modules(),
                "modules are not loaded after {MODULE_PATIENCE:?}; going on without them: their \
                 objects keep what they had, or have what the failure policy says"
            );
        }
        tasks.spawn(modules.clone().follow(store.clone(), parts.clone()));
        let driver = Driver {
            store,
            modules: modules.subscribe(),
            events: self.events,
            engine: self.engine,
        };
        tasks.spawn(driver.run(parts.clone()));
        tasks.spawn(self.publisher.run(parts.clone()));
        if let Some(keeper) = self.keeper {
            tasks.spawn(keeper.run(parts.clone()));
        }
        Ok(())
    }
}

/// Waits a while for the first object.
async fn wait_for_objects(store: &Store, readiness: &Readiness) {
    let namespace = GroupKind::new("", "Namespace");
    let is_bare = || {
        let inputs = store.snapshot();
        let mut counts = inputs.counts();
        counts.all(|(kind, count)| count == 0 || *kind == namespace)
    };
    if !is_bare() {
        return;
    }
    warn!(
        "the folder of manifests is empty, and something was served before: proxies keep that for \
         {BARE_PATIENCE:?}, in case the folder is not mounted yet"
    );
    readiness.set_bare(true);
    let mut commits = store.subscribe();
    let filled = async {
        // The store is alive as long as this function is.
        while is_bare() && commits.changed().await.is_ok() {}
    };
    let _ = tokio::time::timeout(BARE_PATIENCE, filled).await;
    readiness.set_bare(false);
}
