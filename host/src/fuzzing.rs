//! Entry points of the fuzz targets in `tests/fuzz`: each takes any bytes and panics only if
//! something is wrong with the host. Inputs that were found are kept in `tests/fuzz/seeds`, and
//! `host/tests/fuzz_seeds.rs` runs them all.
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

use crate::modules::{Builtins, Manifest, Modules, Registry};
use crate::pipeline::channel::Batch;
use crate::pipeline::{Engine, Metrics, Options};
use crate::sandbox;
use crate::store::{Change, Key, Object, Store};
use crate::synchronizer::{self, DEFAULT_FLEET, Delta, Synchronizer};
use crate::watcher::files;
use chiton_xds::{Resource, ResourceName};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

/// A file of manifests: YAML, or JSON if it begins with `{`.
#[must_use]
pub fn file(data: &[u8]) -> Vec<Arc<Object>> {
    let name = if data.first() == Some(&b'{') {
        "fuzz.json"
    } else {
        "fuzz.yaml"
    };
    files::parse(Path::new(name), data)
}

/// The `module.yaml` of a module.
pub fn module_manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let name = Manifest::name_in(text);
    let _ = Manifest::failure_policy_in(text);
    if let Ok(manifest) = Manifest::parse(text) {
        assert_eq!(name, Some(manifest.name), "one name, however it is read");
    }
}

/// Components before any of them is trusted.
#[derive(Debug)]
pub struct FrontDoor(sandbox::Engine);

impl FrontDoor {
    /// Nothing is cached.
    #[must_use]
    pub fn new() -> Self {
        Self(sandbox::Engine::new(None).expect("an engine"))
    }

    /// A component.
    pub fn knock(&self, data: &[u8]) {
        if let Err(error) = sandbox::Component::load(&self.0, data, &sandbox::Terms::default()) {
            assert!(!error.to_string().is_empty(), "a refusal has a reason");
        }
    }
}

impl Default for FrontDoor {
    fn default() -> Self {
        Self::new()
    }
}

/// What proxies would have.
type Served = BTreeMap<ResourceName, Resource>;

/// A host without watchers and proxies, with the built-in reconcilers.
#[derive(Debug)]
pub struct World {
    store: Store,
    engine: Engine,
    modules: Arc<Modules>,
    synchronizer: Synchronizer,
    served: Served,
}

impl World {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let store = Store::new();
        let kinds = files::KINDS.iter().map(files::Known::group_kind);
        store.commit(&files::synced(kinds));
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("metrics");
        let registry = Registry::offline(&Builtins::default()).expect("built-in reconcilers");
        Self {
            store,
            engine: Engine::new(Options::default(), metrics).expect("threads"),
            modules: registry.live(),
            synchronizer: Synchronizer::new(options()),
            served: Served::new(),
        }
    }

    /// The objects of a file come and go again. What is served while they are there is what a
    /// computation from scratch gives, and nothing is left of them.
    pub fn visit(&mut self, data: &[u8]) {
        let objects = file(data);
        let keys: Vec<Key> = objects.iter().map(|object| object.key.clone()).collect();
        self.change(&objects.into_iter().map(Change::Put).collect::<Vec<_>>());
        assert_eq!(self.served, self.scratch(), "incremental and not");
        self.change(&keys.into_iter().map(Change::Delete).collect::<Vec<_>>());
        assert_eq!(self.served, self.scratch(), "what is left behind");
    }

    fn change(&mut self, changes: &[Change]) {
        self.store.commit(changes);
        let inputs = self.store.snapshot();
        // Always the same time: inputs that were found behave as they did.
        let now = std::time::Duration::ZERO;
        for epoch in self.engine.run_to_rest(&inputs, &self.modules, now) {
            let delta = self.synchronizer.apply(&Batch {
                events: epoch.events,
                world: epoch.world.as_ref().clone(),
            });
            serve(&mut self.served, delta);
        }
    }

    fn scratch(&self) -> Served {
        let world = self.engine.world().load().as_ref().clone();
        let mut served = Served::new();
        let everything = synchronizer::everything(world);
        serve(&mut served, Synchronizer::new(options()).apply(&everything));
        served
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

fn serve(served: &mut Served, mut delta: Delta) {
    for change in delta.resources.remove(DEFAULT_FLEET).unwrap_or_default() {
        change.apply(served);
    }
}

fn options() -> synchronizer::Options {
    synchronizer::Options {
        bind_address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        low_port_offset: 10_000,
        access_log: false,
        fleet_per_gateway: false,
    }
}
