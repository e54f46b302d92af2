//! From what an epoch changed to the events that it sends.
//!
//! Every object whose result changed has an event, and every changed input that the host follows
//! itself. Changes propagate upward: where the documents of a route, a Gateway or a policy changed,
//! each API that is served through it has an UPDATE, also if its own result is what it was.

use super::channel::Event;
use super::output::{Outputs, Reconciled};
use crate::store::{Diff, Difference, Key, Snapshot};
use chiton_ir::identity::names::{CHITON_GROUP, DISCOVERY_GROUP, GATEWAY_GROUP};
use chiton_ir::{api, route};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Results before the epoch of the objects whose results it changed.
pub(super) type Changed = BTreeMap<Key, Option<Arc<Reconciled>>>;

/// Kinds whose objects the synchronizer reads itself. Of an API it reads which routes it names, also
/// where the API is invalid and its result stays what it was.
const FOLLOWED: &[(&str, &str)] = &[
    ("", "Service"),
    ("", "Secret"),
    ("", "Namespace"),
    (DISCOVERY_GROUP, "EndpointSlice"),
    (CHITON_GROUP, "Backend"),
    (GATEWAY_GROUP, "ReferenceGrant"),
    (CHITON_GROUP, "API"),
];

/// Kinds that policies target. Whether a target exists counts as soon as it comes or goes, also if
/// its run has not ended, or never will because it went before.
const TARGETS: &[(&str, &str)] = &[(GATEWAY_GROUP, "Gateway"), (GATEWAY_GROUP, "HTTPRoute")];

/// Which APIs are served through which routes.
#[derive(Debug, Default)]
pub(super) struct Upward {
    apis_by_route: HashMap<Key, BTreeSet<Key>>,
}

impl Upward {
    /// The events of an epoch. All events of a kind go by the same thing, its objects or their
    /// results, so that creations and deletions of a key take turns: else a reader that folds them
    /// would lose the key.
    pub fn events(
        &mut self,
        diff: &Diff,
        changed: &Changed,
        inputs: &Snapshot,
        outputs: &Outputs,
    ) -> BTreeMap<Key, Event> {
        let mut events = BTreeMap::new();
        for change in &diff.objects {
            if is_told(change)
                && let Some(event) = event(change.before.is_some(), change.after.is_some())
            {
                events.insert(change.key.clone(), event);
            }
        }
        for (key, before) in changed {
            let after = outputs.get(key);
            self.follow(key, before.as_ref(), after);
            if goes_by_object(key) {
                if inputs.get(key).is_some() {
                    events.entry(key.clone()).or_insert(Event::Update);
                }
            } else if let Some(event) = event(before.is_some(), after.is_some()) {
                events.insert(key.clone(), event);
            }
        }
        for (key, before) in changed {
            for api in self.affected(key, before.as_ref(), outputs) {
                if outputs.get(&api).is_some() {
                    events.entry(api).or_insert(Event::Update);
                }
            }
        }
        events
    }

    /// Keeps [`Upward::apis_by_route`] in step with the documents of an API.
    fn follow(
        &mut self,
        key: &Key,
        before: Option<&Arc<Reconciled>>,
        after: Option<&Arc<Reconciled>>,
    ) {
        let (before, after) = (routes_of(before), routes_of(after));
        for route in before.difference(&after) {
            if let Some(apis) = self.apis_by_route.get_mut(route) {
                apis.remove(key);
                if apis.is_empty() {
                    self.apis_by_route.remove(route);
                }
            }
        }
        for route in after.difference(&before) {
            let apis = self.apis_by_route.entry(route.clone()).or_default();
            apis.insert(key.clone());
        }
    }

    /// APIs that are served through an object whose documents changed, or through what a changed
    /// policy targets.
    fn affected(
        &self,
        key: &Key,
        before: Option<&Arc<Reconciled>>,
        outputs: &Outputs,
    ) -> BTreeSet<Key> {
        let mut found = BTreeSet::new();
        let after = outputs.get(key);
        if json(before) == json(after) {
            return found;
        }
        self.through(key, outputs, &mut found);
        for result in before.into_iter().chain(after) {
            for target in result.documents.policy.iter().flat_map(|p| &p.targets) {
                self.through(&Key::from(&target.object), outputs, &mut found);
            }
        }
        found
    }

    /// APIs that are served through an object: itself, its route, or a Gateway of its route.
    fn through(&self, key: &Key, outputs: &Outputs, found: &mut BTreeSet<Key>) {
        if let Some(apis) = self.apis_by_route.get(key) {
            found.extend(apis.iter().cloned());
            return;
        }
        let documents = outputs.get(key).map(|result| &result.documents);
        if documents.is_some_and(|documents| documents.api.is_some()) {
            found.insert(key.clone());
            return;
        }
        if documents.is_some_and(|documents| documents.gateway.is_some()) {
            for (route, apis) in &self.apis_by_route {
                let route = outputs
                    .get(route)
                    .and_then(|result| result.documents.route());
                if route.is_some_and(|route| has_parent(&route, key)) {
                    found.extend(apis.iter().cloned());
                }
            }
        }
    }
}

fn is_one(kinds: &[(&str, &str)], key: &Key) -> bool {
    kinds.iter().any(|(group, kind)| key.is(group, kind))
}

/// Whether events of this kind go by its objects; else by their results.
fn goes_by_object(key: &Key) -> bool {
    is_one(FOLLOWED, key) || is_one(TARGETS, key)
}

/// Whether a changed input has an event, whatever its result is. An object that was made anew
/// between two epochs has one because its age decides conflicts.
fn is_told(change: &Difference) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            is_one(FOLLOWED, &change.key) || before.created != after.created
        }
        _ => goes_by_object(&change.key),
    }
}

fn event(before: bool, after: bool) -> Option<Event> {
    match (before, after) {
        (false, true) => Some(Event::Create),
        (true, true) => Some(Event::Update),
        (true, false) => Some(Event::Delete),
        (false, false) => None,
    }
}

fn routes_of(result: Option<&Arc<Reconciled>>) -> BTreeSet<Key> {
    let api = result.and_then(|result| result.documents.api.as_deref());
    api.into_iter()
        .flat_map(|api: &api::Api| [&api.production, &api.sandbox])
        .flatten()
        .map(Key::from)
        .collect()
}

fn has_parent(route: &route::Route, gateway: &Key) -> bool {
    route
        .parents
        .iter()
        .any(|parent| parent.parent.object == **gateway)
}

fn json(result: Option<&Arc<Reconciled>>) -> &[(String, Arc<[u8]>)] {
    result
        .map(|result| result.documents.json.as_slice())
        .unwrap_or_default()
}
