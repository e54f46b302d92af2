//! What reconcilers returned, checked and typed.

use crate::store::Key;
use chiton_ir::{Condition, api, gateway, policy, route};
use imbl::OrdMap;
use std::sync::Arc;

/// Documents of one object. Each is there typed, for the host, and as the JSON that reconcilers of
/// higher layers read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// `gateway`.
    pub gateway: Option<Arc<gateway::Gateway>>,
    /// `route`.
    pub route: Option<Arc<route::Route>>,
    /// `api`.
    pub api: Option<Arc<api::Api>>,
    /// `policy`.
    pub policy: Option<Arc<policy::Policy>>,
    /// The same documents as JSON, by name, sorted.
    pub json: Vec<(String, Arc<[u8]>)>,
}

/// How the newest run of an object ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// `done`; the documents are of this run.
    #[default]
    Good,
    /// `not-ready` or a failure of the host: tried again. The documents are of the last good run.
    NotReady(String),
    /// The module failed. The documents are of the last good run.
    Failed(String),
    /// No live module handles the object (a `Policy` of a type that is not live or not known).
    NoModule(String),
}

/// The result of reconciling one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Name of the module that handled the object; empty with [`RunState::NoModule`].
    pub module: String,
    /// Documents of the last good run.
    pub documents: Documents,
    /// Conditions of the last good run, and of the host where it could not run.
    pub conditions: Vec<Condition>,
    /// How the newest run ended.
    pub state: RunState,
    /// `metadata.generation` of the object that the documents are of.
    pub generation: i64,
}

/// All results. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    results: OrdMap<Key, Arc<Reconciled>>,
}

impl Outputs {
    /// The result for an object, if it has one.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Reconciled>> {
        self.results.get(key)
    }

    /// All results, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Reconciled>)> {
        self.results.iter()
    }

    /// Replaces or removes a result.
    pub fn set(&mut self, key: Key, result: Option<Arc<Reconciled>>) {
        match result {
            Some(result) => self.results.insert(key, result),
            None => self.results.remove(&key),
        };
    }
}
