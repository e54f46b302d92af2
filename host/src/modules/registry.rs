//! The registry: follows the `ConfigMap`s that offer modules, and says what is live.

use super::builtin::{self, BuiltinError, Builtins};
use super::candidate::{self, Candidate};
use super::info::{self, ModuleInfo, ModuleState};
use super::offer::{self, Offer};
use super::saved::{Entry, Saved};
use super::slots::{Offered, Slot, Slots};
use super::{LiveModule, Manifest, Modules};
use crate::pipeline::{self, World};
use crate::sandbox::{Engine, EngineError};
use crate::store::{Key, Object, Snapshot, Store};
use arc_swap::ArcSwap;
use chiton_ir::GroupKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often a candidate that waits for the first epoch is looked at again.
const FIRST_EPOCH: Duration = Duration::from_millis(50);

/// Objects named in the reason of a refusal.
const SHOWN_OBJECTS: usize = 3;

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

/// The registry. All that takes time happens in [`Registry::load_all`]; everything else answers at
/// once.
#[derive(Debug)]
pub struct Registry {
    engine: Engine,
    world: Arc<ArcSwap<World>>,
    saved: Option<Saved>,
    slots: Mutex<Slots>,
    /// Held while offers are considered: the `ConfigMap`s of the last time, if nothing waits.
    considered: Mutex<Option<Vec<Arc<Object>>>>,
    live: watch::Sender<Arc<Modules>>,
}

impl Registry {
    /// A registry with the built-in reconcilers live. What goes live is saved below `data_dir`;
    /// candidates are tried on `world`.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub fn start(
        builtins: &Builtins,
        data_dir: &Path,
        world: Arc<ArcSwap<World>>,
    ) -> Result<Arc<Self>, RegistryError> {
        let engine = Engine::new(Some(&data_dir.join("compiled")))?;
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
                registry.load_all(&inputs, &world)
            })
            .await?;
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                // The store is alive as long as this task holds it.
                _ = commits.changed() => {}
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
        for offer in offers.values() {
            self.consider(offer, &world.load_full());
        }
        self.publish();
        let waits = self.slots().named.values().any(|slot| {
            slot.offered
                .as_ref()
                .is_some_and(|it| it.candidate.is_some())
        });
        *considered = (!waits).then_some(config_maps);
        waits
    }

    /// Makes known what is offered, so that policies of a type that is being loaded are not taken
    /// for policies of an unknown type, and lets go of what is offered no more.
    fn take_in(&self, config_maps: &[Arc<Object>]) -> BTreeMap<String, Offer> {
        let mut offers: BTreeMap<String, Offer> = BTreeMap::new();
        let mut doubles = Vec::new();
        for object in config_maps {
            let offer = Offer::read(object, |source| self.name_from(source));
            match offers.get(&offer.name) {
                Some(first) => doubles.push(double(&offer, first)),
                None => {
                    offers.insert(offer.name.clone(), offer);
                }
            }
        }
        let names = offers.keys().cloned().collect();
        if let Some(saved) = &self.saved
            && let Err(error) = saved.retain(&names)
        {
            tracing::warn!(%error, "saved modules that are gone could not be removed");
        }
        let mut slots = self.slots();
        slots.retain(&names);
        slots.doubles = doubles;
        for (name, offer) in &offers {
            let slot = slots.named.entry(name.clone()).or_insert_with(|| Slot {
                source: offer.source.clone(),
                live: None,
                offered: Some(Offered::new(offer)),
            });
            slot.source = offer.source.clone();
        }
        drop(slots);
        self.publish();
        offers
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

    fn consider(&self, offer: &Offer, world: &World) {
        if self.is_settled(offer) || self.restore(offer) {
            return;
        }
        let candidate = match self.waiting(offer) {
            Some(candidate) => Ok(candidate),
            None => self.prepare(offer),
        };
        let result = candidate.and_then(|candidate| self.judge(offer, candidate, world));
        if let Err(reason) = result {
            self.refuse(offer, reason);
        }
    }

    /// Whether nothing is left to do: the offer is live, or was refused as it is.
    fn is_settled(&self, offer: &Offer) -> bool {
        let mut slots = self.slots();
        let Some(slot) = slots.named.get_mut(&offer.name) else {
            return true;
        };
        let is = |fingerprint: &String| *fingerprint == offer.fingerprint;
        if slot.live.as_ref().is_some_and(|live| is(&live.fingerprint)) {
            slot.offered = None;
            return true;
        }
        slot.offered
            .as_ref()
            .is_some_and(|it| is(&it.fingerprint) && it.state == ModuleState::Refused)
    }

    /// Puts in charge what was live before a restart. Whether that settles the offer.
    fn restore(&self, offer: &Offer) -> bool {
        let first = self
            .slots()
            .named
            .get(&offer.name)
            .is_some_and(|slot| slot.live.is_none());
        let entry = self.saved.as_ref().filter(|_| first).and_then(|saved| {
            let entry = saved.entry(&offer.name, &offer.source)?;
            Some((saved, entry))
        });
        let Some((saved, entry)) = entry else {
            return false;
        };
        let module = saved
            .bytes(&entry)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                let manifest = Manifest::parse(&entry.manifest)?;
                candidate::compile(&self.engine, &manifest, bytes, self.role(&offer.name))
            });
        match module {
            Ok(candidate) => {
                tracing::info!(
                    module = offer.name,
                    version = candidate.module.version,
                    "module live again after a restart"
                );
                let offered = self
                    .slots()
                    .named
                    .get(&offer.name)
                    .and_then(|slot| slot.offered.clone());
                self.slots()
                    .go_live(&offer.name, candidate.module, entry.fingerprint.clone());
                if entry.fingerprint == offer.fingerprint {
                    return true;
                }
                self.set_offered(offer, |slot| {
                    *slot = offered.unwrap_or_else(|| Offered::new(offer));
                });
                false
            }
            Err(reason) => {
                tracing::warn!(
                    module = offer.name,
                    reason,
                    "what was live before the restart cannot be used"
                );
                false
            }
        }
    }

    /// The candidate that waits for its trial, if it is of this offer.
    fn waiting(&self, offer: &Offer) -> Option<Candidate> {
        let slots = self.slots();
        let offered = slots.named.get(&offer.name)?.offered.as_ref()?;
        offered
            .candidate
            .clone()
            .filter(|_| offered.fingerprint == offer.fingerprint)
    }

    fn prepare(&self, offer: &Offer) -> Result<Candidate, String> {
        self.set_offered(offer, |slot| *slot = Offered::new(offer));
        let candidate =
            candidate::prepare(&self.engine, offer, self.role(&offer.name), |digest| {
                self.set_offered(offer, |slot| {
                    slot.state = ModuleState::Verified;
                    digest.clone_into(&mut slot.digest);
                });
            })?;
        if let Some((rival, kind)) = self.slots().rival(&offer.name, &candidate.module.handles) {
            return Err(format!(
                "{kind} is handled by the module `{rival}` already: use that name to replace it"
            ));
        }
        self.set_offered(offer, |slot| {
            slot.state = ModuleState::Compiled;
            "waits for the first epoch, to be tried on its objects".clone_into(&mut slot.reason);
            slot.candidate = Some(candidate.clone());
        });
        Ok(candidate)
    }

    /// Tries a candidate beside what is live, and puts it in charge unless it does worse.
    fn judge(&self, offer: &Offer, candidate: Candidate, world: &World) -> Result<(), String> {
        let before = self.slots().live(&offer.name).cloned();
        if before.is_some() {
            if world.epoch == 0 {
                return Ok(());
            }
            try_on(world, &candidate.module)?;
        }
        self.set_offered(offer, |slot| slot.state = ModuleState::Tried);
        tracing::info!(
            module = offer.name,
            version = candidate.module.version,
            digest = candidate.module.digest,
            source = %offer.source,
            "module goes live"
        );
        self.save(offer, &candidate);
        self.slots()
            .go_live(&offer.name, candidate.module, offer.fingerprint.clone());
        Ok(())
    }

    fn save(&self, offer: &Offer, candidate: &Candidate) {
        let Some(saved) = &self.saved else {
            return;
        };
        let entry = Entry {
            source: (*offer.source).clone(),
            fingerprint: offer.fingerprint.clone(),
            manifest: offer.text.clone(),
            digest: candidate.module.digest.clone(),
        };
        if let Err(error) = saved.save(&offer.name, entry, &candidate.bytes) {
            tracing::warn!(module = offer.name, %error, "the live module could not be saved: after a restart it is only in its ConfigMap");
        }
    }

    fn refuse(&self, offer: &Offer, reason: String) {
        tracing::warn!(module = offer.name, source = %offer.source, reason, "module refused; what was live before goes on");
        self.set_offered(offer, |slot| {
            slot.state = ModuleState::Refused;
            slot.candidate = None;
            slot.reason = reason;
        });
    }

    fn set_offered(&self, offer: &Offer, change: impl FnOnce(&mut Offered)) {
        if let Some(slot) = self.slots().named.get_mut(&offer.name) {
            change(slot.offered.get_or_insert_with(|| Offered::new(offer)));
        }
    }

    /// The role that a module of this name must have: that of the built-in one.
    fn role(&self, name: &str) -> Option<crate::sandbox::Role> {
        let slots = self.slots();
        slots.builtins.get(name).map(|builtin| builtin.module.role)
    }

    /// Publishes what is live, if it is something else than before.
    fn publish(&self) {
        let modules = self.slots().modules();
        self.live.send_if_modified(|live| {
            let differs = !modules.changes_since(live).is_empty();
            if differs {
                *live = Arc::new(modules);
            }
            differs
        });
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
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

/// Runs a candidate on all that it would own.
fn try_on(world: &World, candidate: &Arc<LiveModule>) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tried = pipeline::trial(world, candidate, pipeline::now(), threads);
    let worse: Vec<String> = tried.iter().filter_map(pipeline::Tried::worse).collect();
    if worse.is_empty() {
        return Ok(());
    }
    let mut shown = worse[..worse.len().min(SHOWN_OBJECTS)].join("; ");
    if worse.len() > SHOWN_OBJECTS {
        shown = format!("{shown}; and {} more", worse.len() - SHOWN_OBJECTS);
    }
    Err(format!(
        "in its trial on {} objects it did worse than what is live on {}: {shown}",
        tried.len(),
        worse.len()
    ))
}

fn double(offer: &Offer, first: &Offer) -> ModuleInfo {
    ModuleInfo::offered(
        &offer.name,
        &offer.source.to_string(),
        ModuleState::Refused,
        &format!(
            "{} has a module of this name already: rename one, or remove one",
            first.source
        ),
    )
}

fn same(last: &[Arc<Object>], now: &[Arc<Object>]) -> bool {
    last.len() == now.len()
        && last
            .iter()
            .zip(now)
            .all(|(last, now)| Arc::ptr_eq(last, now))
}
