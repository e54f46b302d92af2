//! A host without a network: all parts from the store to what proxies have.

use super::manifests::{KINDS, Thing, key};
use super::spy::{self, Call, Calls, MODULES, Version};
use crate::modules::Modules;
use crate::pipeline::channel::Events;
use crate::pipeline::{Engine, Metrics, Options, RetryPolicy, World};
use crate::store::{Change as StoreChange, Key, Store};
use crate::synchronizer::{Delta, Findings, Synchronizer};
use chiton_xds::{Change, Resource, ResourceName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What proxies have.
pub type Proxies = BTreeMap<ResourceName, Resource>;

pub struct Host {
    pub store: Store,
    pub engine: Engine,
    pub modules: Arc<Modules>,
    pub versions: BTreeMap<&'static str, Version>,
    pub calls: Calls,
    pub events: Events,
    pub synchronizer: Synchronizer,
    pub proxies: Proxies,
    pub findings: BTreeMap<Key, Arc<Findings>>,
    pub now: Duration,
    /// Modules that were swapped since somebody looked.
    pub swapped: BTreeSet<&'static str>,
}

/// Nothing outlasts an epoch unless a test wants it to.
pub fn options() -> Options {
    Options {
        threads: 2,
        straggler: Duration::from_mins(1),
        layer: Duration::from_mins(1),
        batch: usize::MAX,
        first: (Duration::from_mins(1), Duration::from_mins(1)),
        retry: RetryPolicy::default(),
    }
}

impl Host {
    /// Everything is synced, and there is nothing.
    pub fn new(options: Options) -> Self {
        let calls = Calls::default();
        let versions = MODULES
            .map(|name| (name, Version::default()))
            .into_iter()
            .collect();
        let store = Store::new();
        let changes: Vec<_> = KINDS
            .iter()
            .map(|kind| StoreChange::Synced(key(kind, "", "").group_kind()))
            .collect();
        store.commit(&changes);
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("metrics");
        Self {
            store,
            engine: Engine::new(options, metrics).expect("an engine"),
            modules: spy::modules(&versions, &calls),
            versions,
            calls,
            events: Events::default(),
            synchronizer: Synchronizer::new(crate::synchronizer::Options {
                bind_address: None,
                low_port_offset: 0,
                access_log: false,
                fleet_per_gateway: false,
            }),
            proxies: Proxies::new(),
            findings: BTreeMap::new(),
            now: Duration::from_secs(1_000),
            swapped: BTreeSet::new(),
        }
    }

    pub fn put(&self, key: &Key, thing: &Thing) {
        self.store.commit(&[StoreChange::Put(thing.object(key))]);
    }

    pub fn delete(&self, key: &Key) {
        self.store.commit(&[StoreChange::Delete(key.clone())]);
    }

    /// Replaces one module; the others stay as they are.
    pub fn swap(&mut self, name: &'static str, version: Version) {
        let new = spy::live(name, &version, &self.calls);
        self.versions.insert(name, version);
        self.swapped.insert(name);
        let kept = MODULES.into_iter().filter(|other| *other != name);
        let kept: Vec<_> = kept.map(|name| module(&self.modules, name)).collect();
        self.modules = Arc::new(Modules::new(kept.into_iter().chain([new])));
    }

    /// Runs an epoch and hands its events to the channel. Returns the calls that were made.
    pub fn epoch(&mut self) -> Vec<Call> {
        let snapshot = self.store.snapshot();
        let report = self.engine.run(snapshot, self.modules.clone(), self.now);
        if let Some(committed) = report.committed {
            self.events
                .push(committed.events, committed.world.as_ref().clone());
        }
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// Has the synchronizer read the channel. What it sends is what is different.
    pub fn synchronize(&mut self) -> Delta {
        let Some(batch) = self.events.take() else {
            return Delta::default();
        };
        let delta = self.synchronizer.apply(&batch);
        for change in delta.resources.values().flatten() {
            match change {
                Change::Put(resource) => {
                    let name = resource.name.clone();
                    self.proxies.insert(name, resource.clone());
                }
                Change::Remove(name) => {
                    assert!(self.proxies.remove(name).is_some(), "{name} was not there");
                }
            }
        }
        for (key, findings) in &delta.findings {
            match findings {
                Some(findings) => self.findings.insert(key.clone(), findings.clone()),
                None => self.findings.remove(key),
            };
        }
        delta
    }

    /// Runs epochs, as the driver does, until no run is outstanding.
    pub fn rest(&mut self) {
        self.epoch();
        while self.engine.has_stragglers() || self.engine.next_wake() == Some(Duration::ZERO) {
            self.epoch();
            std::thread::yield_now();
        }
        self.synchronize();
    }

    pub fn world(&self) -> Arc<World> {
        self.engine.world().load_full()
    }

    /// Name and version of all that proxies have.
    pub fn served(&self) -> BTreeMap<String, String> {
        let all = self.proxies.iter();
        all.map(|(name, it)| (name.to_string(), it.version.clone()))
            .collect()
    }
}

fn module(modules: &Modules, name: &str) -> Arc<crate::modules::LiveModule> {
    use crate::modules::PolicyModule;
    if let PolicyModule::Live(module) = modules.policy(name) {
        return module;
    }
    let mut kinds = modules.kinds();
    let found = kinds.find(|(_, module)| module.name == name);
    found.expect("a module").1.clone()
}
