//! Tests of the pipeline as a whole, with reconcilers that are plain functions.
//!
//! What a fake reconciler reads stands in the object: `spec.steps`. What it read goes, as a digest,
//! into the document that it returns, so that a stale result is a wrong result.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod content;
mod driving;
mod failing;
mod fake;
mod locality;
mod random;
mod restoring;
mod storms;
mod stragglers;
mod swapping;

use super::channel::Event;
use super::{Engine, Metrics, Options, Reconciled, Report, RetryPolicy};
use crate::modules::{LiveModule, Modules};
use crate::sandbox::Role;
use crate::store::{Change, Key, Object, Store};
use chiton_ir::GroupKind;
use chiton_ir::identity::names::{CHITON_GROUP, DISCOVERY_GROUP, GATEWAY_GROUP};
use fake::Fake;
use prometheus::Registry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// `Kind/name` in the namespace `default`.
fn key(name: &str) -> Key {
    let (kind, name) = name.split_once('/').expect("Kind/name");
    let group = match kind {
        "Gateway" | "HTTPRoute" | "ReferenceGrant" => GATEWAY_GROUP,
        "API" | "Policy" | "Backend" => CHITON_GROUP,
        "EndpointSlice" => DISCOVERY_GROUP,
        _ => "",
    };
    Key::new(group, kind, "default", name)
}

fn short(key: &Key) -> String {
    format!("{}/{}", key.kind, key.name)
}

fn object(name: &str, labels: &[(&str, &str)], spec: &Value) -> Object {
    let key = key(name);
    let labels: BTreeMap<String, String> = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let body = json!({"metadata": {"name": key.name, "labels": labels}, "spec": spec});
    Object {
        key,
        api_version: "v1".into(),
        labels: labels.into_iter().collect(),
        generation: 0,
        created: None,
        body: body.to_string().into_bytes().into(),
        problem: None,
        origin: None,
    }
}

/// A store, an engine and a clock.
struct Rig {
    store: Store,
    engine: Engine,
    modules: Arc<Modules>,
    metrics: Metrics,
    now: Duration,
}

const KINDS: &[&str] = &[
    "Gateway",
    "HTTPRoute",
    "ReferenceGrant",
    "API",
    "Policy",
    "Backend",
    "EndpointSlice",
    "ConfigMap",
    "Service",
    "Namespace",
];

fn options() -> Options {
    Options {
        threads: 3,
        straggler: Duration::from_millis(50),
        layer: Duration::from_mins(1),
        batch: usize::MAX,
        first: (Duration::from_secs(10), Duration::from_mins(1)),
        retry: RetryPolicy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(10),
            deadline: Duration::from_mins(1),
        },
    }
}

impl Rig {
    /// All kinds are synced and each role has a fake.
    fn new() -> Self {
        Self::with(Fake::all())
    }

    fn with(modules: Vec<LiveModule>) -> Self {
        let rig = Self::unsynced(modules);
        for kind in KINDS {
            rig.sync(kind);
        }
        rig
    }

    fn unsynced(modules: Vec<LiveModule>) -> Self {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        Self {
            store: Store::new(),
            engine: Engine::new(options(), metrics.clone()).unwrap(),
            modules: Arc::new(Modules::new(modules.into_iter().map(Arc::new))),
            metrics,
            now: Duration::from_secs(1_000),
        }
    }

    fn sync(&self, kind: &str) {
        let kind = key(&format!("{kind}/x")).group_kind();
        self.store.commit(&[Change::Synced(kind)]);
    }

    #[allow(clippy::needless_pass_by_value)] // so that tests can say `json!(…)` as it is
    fn put(&self, name: &str, spec: Value) -> &Self {
        self.put_labelled(name, &[], &spec)
    }

    fn put_labelled(&self, name: &str, labels: &[(&str, &str)], spec: &Value) -> &Self {
        self.put_object(object(name, labels, spec))
    }

    fn put_object(&self, object: Object) -> &Self {
        self.store.commit(&[Change::Put(Arc::new(object))]);
        self
    }

    fn delete(&self, name: &str) -> &Self {
        self.store.commit(&[Change::Delete(key(name))]);
        self
    }

    fn run(&mut self) -> Report {
        self.engine
            .run(self.store.snapshot(), self.modules.clone(), self.now)
    }

    /// Runs an epoch; who ran, in order.
    fn ran(&mut self) -> Vec<String> {
        self.run().ran.iter().map(short).collect()
    }

    /// Runs an epoch; its events.
    fn events(&mut self) -> Vec<(String, Event)> {
        let committed = self.run().committed;
        let events = committed.map(|committed| committed.events);
        events
            .into_iter()
            .flatten()
            .map(|(key, event)| (short(&key), event))
            .collect()
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn result(&self, name: &str) -> Arc<Reconciled> {
        let world = self.engine.world().load_full();
        world.outputs.get(&key(name)).expect("a result").clone()
    }

    fn has_result(&self, name: &str) -> bool {
        let world = self.engine.world().load_full();
        world.outputs.get(&key(name)).is_some()
    }

    /// The one document of an object as text; empty if there is none.
    fn document(&self, name: &str) -> String {
        let documents = &self.result(name).documents;
        documents
            .json
            .first()
            .map_or_else(String::new, |(_, body)| {
                String::from_utf8(body.to_vec()).expect("JSON")
            })
    }

    fn swap(&mut self, modules: Vec<LiveModule>) {
        self.modules = Arc::new(Modules::new(modules.into_iter().map(Arc::new)));
    }
}

/// A condition of an object as `Type=Status Reason`.
fn conditions(result: &Reconciled) -> Vec<String> {
    result
        .conditions
        .iter()
        .map(|c| format!("{}={:?} {}", c.r#type, c.status, c.reason))
        .collect()
}

fn role_kind(role: Role) -> GroupKind {
    let name = match role {
        Role::Gateway => "Gateway/x",
        Role::Route => "HTTPRoute/x",
        Role::Api => "API/x",
        Role::Policy => "Policy/x",
    };
    key(name).group_kind()
}
