//! What reconcilers returned, checked and typed.

use crate::store::Key;
use chiton_ir::policy::{Effect, Policy, Respond, Target};
use chiton_ir::{Condition, api, documents, gateway, route};
use imbl::{OrdMap, OrdSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Documents of one object, as the JSON that reconcilers of higher layers read, and typed, for the
/// host. Only of routes, of which there are many, the JSON is all: typed they take as much again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// `gateway`.
    pub gateway: Option<Arc<gateway::Gateway>>,
    /// `api`.
    pub api: Option<Arc<api::Api>>,
    /// `policy`.
    pub policy: Option<Arc<Policy>>,
    /// The same documents as JSON, by name, sorted.
    pub json: Vec<(String, Arc<[u8]>)>,
}

impl Documents {
    /// A document as JSON.
    #[must_use]
    pub fn json(&self, name: &str) -> Option<&Arc<[u8]>> {
        self.json
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, body)| body)
    }

    /// Whether there is a `route`.
    #[must_use]
    pub fn is_route(&self) -> bool {
        self.json(documents::ROUTE).is_some()
    }

    /// `route`, decoded; it was checked when it was put here.
    #[must_use]
    pub fn route(&self) -> Option<route::Route> {
        serde_json::from_slice(self.json(documents::ROUTE)?).ok()
    }

    /// Those of a policy that has every request to its targets answered with 500; none without a
    /// target.
    #[must_use]
    pub fn closing(targets: Vec<Target>) -> Self {
        if targets.is_empty() {
            return Self::default();
        }
        let policy = Policy {
            targets,
            default: Vec::new(),
            r#override: vec![Effect::Respond(Respond {
                status: 500,
                body: String::new(),
            })],
        };
        // Serializing a document of ours cannot fail: its keys are strings.
        let json = serde_json::to_vec(&policy).unwrap_or_default();
        Self {
            policy: Some(Arc::new(policy)),
            json: vec![(documents::POLICY.to_owned(), json.into())],
            ..Self::default()
        }
    }
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
    /// Documents of the last good run; without one, what the module's failure policy says.
    pub documents: Documents,
    /// Conditions of the last good run, and of the host where it could not run.
    pub conditions: Arc<[Condition]>,
    /// How the newest run ended.
    pub state: RunState,
    /// `metadata.generation` of the object that the documents are of.
    pub generation: i64,
}

/// All results. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    results: OrdMap<Key, Arc<Reconciled>>,
    /// Objects with a `policy` document, by the objects that it targets.
    by_target: OrdMap<Key, OrdSet<Key>>,
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

    /// The policies that target the object or a section of it, sorted by key.
    pub fn policies(&self, target: &Key) -> impl Iterator<Item = (&Key, &Arc<Policy>)> {
        self.by_target
            .get(target)
            .into_iter()
            .flatten()
            .filter_map(|key| Some((key, self.get(key)?.documents.policy.as_ref()?)))
    }

    /// Replaces or removes a result.
    pub fn set(&mut self, key: Key, result: Option<Arc<Reconciled>>) {
        let before = targets(self.results.get(&key));
        let after = targets(result.as_ref());
        for target in before.difference(&after) {
            self.detach(target, &key);
        }
        for target in after.difference(&before) {
            let policies = self.by_target.entry(target.clone()).or_default();
            policies.insert(key.clone());
        }
        match result {
            Some(result) => self.results.insert(key, result),
            None => self.results.remove(&key),
        };
    }

    fn detach(&mut self, target: &Key, policy: &Key) {
        if let Some(policies) = self.by_target.get_mut(target) {
            policies.remove(policy);
            if policies.is_empty() {
                self.by_target.remove(target);
            }
        }
    }
}

fn targets(result: Option<&Arc<Reconciled>>) -> BTreeSet<Key> {
    result
        .and_then(|result| result.documents.policy.as_ref())
        .map(|policy| {
            policy
                .targets
                .iter()
                .map(|t| Key::from(&t.object))
                .collect()
        })
        .unwrap_or_default()
}
