//! The registry: follows the `ConfigMap`s that offer modules, and says what is live.

use super::Modules;
use super::builtin::{self, BuiltinError, Builtins};
use super::info::{self, ModuleInfo};
use super::offer::{self, Offer};
use super::preparation::Bell;
use super::saved::Saved;
use super::slots::{Slot, Slots};
use crate::pipeline::World;
use crate::sandbox::{Engine, EngineError};
use crate::store::{Key, Object, Snapshot, Store};
use arc_swap::ArcSwap;
use chiton_ir::GroupKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often a candidate that waits for the first epoch is looked at again.
const FIRST_EPOCH: Duration = Duration::from_millis(50);

/// Why there is no registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There is no engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The built-in reconcilers do not load.
    #[error(transparent)]
    Builtin(#[from] BuiltinError),
    /// The folder for live modules cannot be used.
    #[error("live modules cannot be saved in {}: {error}", path.display())]
    Saved {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// The registry. All that takes time happens in [`Registry::load_all`] and [`Registry::load_within`];
/// everything else answers at once.
#[derive(Debug)]
pub struct Registry {
    pub(super) engine: Engine,
    pub(super) world: Arc<ArcSwap<World>>,
    pub(super) saved: Option<Saved>,
    slots: Mutex<Slots>,
    /// Held while offers are considered: the `ConfigMap`s of the last time, if nothing waits.
    considered: Mutex<Option<Vec<Arc<Object>>>>,
    pub(super) bell: Arc<Bell>,
    live: watch::Sender<Arc<Modules>>,
}

impl Registry {
    /// A registry with the built-in reconcilers live. What goes live is saved below `data_dir`;
    /// candidates are tried on `world`. Modules are compiled by `program`, which is this one.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub fn start(
        builtins: &Builtins,
        data_dir: &Path,
        world: Arc<ArcSwap<World>>,
        program: PathBuf,
    ) -> Result<Arc<Self>, RegistryError> {
        let engine = Engine::compiling_apart(&data_dir.join("compiled"), program)?;
        let path = data_dir.join("modules");
        let saved =
            Saved::open(path.clone()).map_err(|error| RegistryError::Saved { path, error })?;
        Self::new(engine, builtins, Some(saved), world).map(Arc::new)
    }

    /// A registry without a data folder: nothing that it does depends on what was live before, and
    /// nothing outlives it but compiled modules in the user's cache, where there is one.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub fn offline(builtins: &Builtins) -> Result<Self, RegistryError> {
        let cached = cache_dir().map(|dir| Engine::new(Some(&dir)));
        let engine = match cached {
            Some(Ok(engine)) => engine,
            // It costs time, nothing else.
            Some(Err(_)) | None => Engine::new(None)?,
        };
        Self::new(engine, builtins, None, Arc::default())
    }

    fn new(
        engine: Engine,
        builtins: &Builtins,
        saved: Option<Saved>,
        world: Arc<ArcSwap<World>>,
    ) -> Result<Self, RegistryError> {
        let slots = Slots {
            builtins: builtin::load(&engine, builtins)?,
            since: info::now(),
            ..Slots::default()
        };
        Ok(Self {
            engine,
            world,
            saved,
            live: watch::Sender::new(Arc::new(slots.modules())),
            slots: Mutex::new(slots),
            considered: Mutex::new(None),
            bell: Arc::default(),
        })
    }

    /// A registry for tests, on the engine that they share, with at most one built-in reconciler.
    #[cfg(test)]
    #[allow(clippy::expect_used)]
    pub(super) fn bare(data_dir: Option<&Path>, builtin: Option<(&str, Vec<u8>)>) -> Self {
        let engine = crate::sandbox::testing::engine().clone();
        let none = Builtins {
            enabled: Some(Vec::new()),
            dir: None,
        };
        let saved = data_dir.map(|dir| Saved::open(dir.join("modules")).expect("a folder"));
        let registry = Self::new(engine, &none, saved, Arc::default()).expect("a registry");
        if let Some((name, bytes)) = builtin {
            let it = builtin::load_one(&registry.engine, name, "built-in".into(), &bytes);
            let it = it.expect("a reconciler that loads");
            registry.slots().builtins.insert(name.to_owned(), it);
            registry.publish();
        }
        registry
    }

    /// What is live now.
    #[must_use]
    pub fn live(&self) -> Arc<Modules> {
        self.live.borrow().clone()
    }

    /// What is live, now and later. Each value is whole: an epoch that takes it sees a swap of
    /// several modules at once.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Modules>> {
        self.live.subscribe()
    }

    /// Every version that can be shown: live ones, offered ones with the reason why they are not
    /// live, and the last that were retired.
    #[must_use]
    pub fn list(&self) -> Vec<ModuleInfo> {
        self.slots().list()
    }

    /// Names of modules that are offered and of which no version is live or refused yet. What stands
    /// in for another version until that has been tried is live.
    #[must_use]
    pub fn loading(&self) -> Vec<String> {
        self.slots().loading()
    }

    /// Considers offers whenever the store's `ConfigMap`s change, until `stop` is cancelled.
    ///
    /// # Errors
    /// Considering offers panicked.
    pub async fn follow(
        self: Arc<Self>,
        store: Arc<Store>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut commits = store.subscribe();
        loop {
            commits.borrow_and_update();
            let (registry, inputs) = (self.clone(), store.snapshot());
            let waits = tokio::task::spawn_blocking(move || {
                let world = registry.world.clone();
                registry.look(&inputs, &world)
            })
            .await?;
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                // The store is alive as long as this task holds it.
                _ = commits.changed() => {}
                () = self.bell.told() => {}
                () = tokio::time::sleep(FIRST_EPOCH), if waits => {}
            }
        }
    }

    /// Considers all offers: fetches, verifies, compiles and tries what is new, puts in charge what
    /// passes, and retires what is gone. Takes as long as that takes: not for an async thread.
    /// Returns whether a candidate waits for the first epoch of `world`.
    ///
    /// Called before the first epoch it puts in charge what needs no trial: what was live before a
    /// restart, and what nothing else stands in for.
    pub fn load_all(&self, inputs: &Snapshot, world: &ArcSwap<World>) -> bool {
        loop {
            let rung = self.bell.rung();
            let waits = self.look(inputs, world);
            if !self.is_preparing() {
                return waits;
            }
            self.bell.wait(rung, None);
        }
    }

    /// As [`Registry::load_all`], but leaves what is not prepared in time to [`Registry::follow`].
    /// Returns whether that is nothing.
    pub fn load_within(
        &self,
        inputs: &Snapshot,
        world: &ArcSwap<World>,
        patience: Duration,
    ) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let rung = self.bell.rung();
            self.look(inputs, world);
            if !self.is_preparing() {
                return true;
            }
            if !self.bell.wait(rung, Some(deadline)) {
                return false;
            }
        }
    }

    /// Whether an offer is being fetched or compiled.
    fn is_preparing(&self) -> bool {
        self.slots().named.values().any(Slot::is_preparing)
    }

    /// Takes every offer as far as it gets without waiting for what is being fetched or compiled.
    /// Returns whether a candidate waits for the first epoch.
    fn look(&self, inputs: &Snapshot, world: &ArcSwap<World>) -> bool {
        let mut considered = self
            .considered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A kind that is not listed yet is unknown, not empty.
        if !inputs.is_synced(&GroupKind::new("", "ConfigMap")) {
            return false;
        }
        let config_maps = offer::config_maps(inputs);
        if considered
            .as_ref()
            .is_some_and(|last| same(last, &config_maps))
        {
            return false;
        }
        let offers = self.take_in(&config_maps);
        for (name, contenders) in &offers {
            self.contend(name, contenders, &world.load_full());
        }
        self.slots().let_go();
        self.publish();
        let waits = self.slots().named.values().any(|slot| {
            slot.offered
                .as_ref()
                .is_some_and(|it| it.candidate.is_some())
        });
        *considered = (!waits && !self.is_preparing()).then_some(config_maps);
        waits
    }

    /// Makes known what is offered, so that policies of a type that is being loaded are not taken
    /// for policies of an unknown type, and lets go of what is offered no more. Offers of one name
    /// are in order of age.
    fn take_in(&self, config_maps: &[Arc<Object>]) -> BTreeMap<String, Vec<Offer>> {
        let mut offers: BTreeMap<String, Vec<Offer>> = BTreeMap::new();
        for object in config_maps {
            let offer = Offer::read(object, |source| self.name_from(source));
            offers.entry(offer.name.clone()).or_default().push(offer);
        }
        let is_offered = |name: &str, source: &Key| {
            let mut all = offers.get(name).into_iter().flatten();
            all.any(|offer| offer.source == *source)
        };
        if let Some(saved) = &self.saved
            && let Err(error) = saved.retain(|name, source| is_offered(name, &source.into()))
        {
            tracing::warn!(%error, "saved modules that are gone could not be removed");
        }
        let mut slots = self.slots();
        slots.retain(|name| offers.contains_key(name), is_offered);
        for (name, contenders) in &offers {
            if let Some(first) = contenders.first() {
                slots
                    .named
                    .entry(name.clone())
                    .or_insert_with(|| Slot::new(first));
            }
        }
        drop(slots);
        self.publish();
        offers
    }

    /// Decides who of those that offer a module under one name has it. It belongs to the one whose
    /// version is live, or was before a restart. Where nothing is live it goes to the first whose
    /// offer can be used.
    fn contend(&self, name: &str, offers: &[Offer], world: &World) {
        let mut order: Vec<&Offer> = offers.iter().collect();
        if let Some(owner) = self.owner(name) {
            order.sort_by_key(|offer| offer.source != owner);
        }
        let mut winner = None;
        for offer in &order {
            self.slots().turn(offer);
            self.consider(offer, world);
            if self.slots().has_taken(offer) {
                winner = Some(offer.source.clone());
                break;
            }
            // The next one has its turn when this one is known to be unusable.
            if self.preparation(offer).is_some() {
                break;
            }
        }
        if winner.is_none()
            && !self.slots().named.get(name).is_some_and(Slot::is_preparing)
            && let Some(first) = order.first()
        {
            self.slots().turn(first);
        }
        self.slots().note_doubles(name, offers, winner.as_ref());
    }

    /// The `ConfigMap` to which a name belongs.
    fn owner(&self, name: &str) -> Option<Key> {
        let slots = self.slots();
        match slots.named.get(name).filter(|slot| slot.live.is_some()) {
            Some(slot) => (!slot.orphaned).then(|| slot.source.clone()),
            None => self.saved.as_ref()?.source(name),
        }
    }

    /// The name of the module that came from a `ConfigMap`, now or before a restart.
    fn name_from(&self, source: &Key) -> Option<String> {
        let slots = self.slots();
        let mut known = slots.named.iter();
        known
            .find(|(_, slot)| slot.source == *source)
            .map(|(name, _)| name.clone())
            .or_else(|| self.saved.as_ref()?.name_from(source))
    }

    /// Publishes what is live, if it is something else than before.
    pub(super) fn publish(&self) {
        let modules = self.slots().modules();
        self.live.send_if_modified(|live| {
            let differs = !modules.changes_since(live).is_empty();
            if differs {
                *live = Arc::new(modules);
            }
            differs
        });
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `$XDG_CACHE_HOME/chiton/compiled`, or below `~/.cache`.
fn cache_dir() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("chiton/compiled"))
}

fn same(last: &[Arc<Object>], now: &[Arc<Object>]) -> bool {
    last.len() == now.len()
        && last
            .iter()
            .zip(now)
            .all(|(last, now)| Arc::ptr_eq(last, now))
}
