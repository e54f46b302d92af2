//! What a client asks for.

use super::{Feedback, Session};
use crate::ResourceType;
use crate::snapshot::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The name that subscribes to everything.
pub(super) const WILDCARD: &str = "*";

/// A delta request, or one of the state of the world said in delta, without what does not matter to a session.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub subscribe: Vec<String>,
    pub unsubscribe: Vec<String>,
    pub initial_versions: HashMap<String, String>,
    /// The client has resources from an earlier stream, though it may not say which.
    pub returned: bool,
    /// Of the response that it answers; empty if it answers none.
    pub nonce: String,
    /// Why the response was rejected.
    pub error: Option<String>,
}

impl Session {
    /// Takes a request. What it asks for is sent by the next [`Session::poll`].
    pub fn on_request(&mut self, kind: ResourceType, mut request: Request) -> Feedback {
        let mut feedback = Feedback::default();
        if !request.nonce.is_empty() {
            let error = request.error.take();
            self.on_answer(kind, &request.nonce, error, &mut feedback);
        }
        for name in &request.unsubscribe {
            self.unsubscribe(kind, name);
        }
        if self.subscriptions[kind].opened {
            for name in &request.subscribe {
                self.subscribe(kind, name);
            }
        } else {
            self.open(kind, request);
        }
        let names = self.subscriptions.iter().map(|(_, s)| s.names.len());
        feedback.too_many = names.sum::<usize>() > self.limits.subscriptions;
        feedback
    }

    /// The first request of a type: what the client has it keeps, so only differences are sent.
    fn open(&mut self, kind: ResourceType, request: Request) {
        let (names, versions) = (request.subscribe, request.initial_versions);
        self.returned |= request.returned || !versions.is_empty();
        let subscription = &mut self.subscriptions[kind];
        subscription.opened = true;
        subscription.changed += 1;
        // An empty first request asks for everything, of the types that clients know no names of.
        subscription.wildcard = if names.is_empty() {
            has_legacy_wildcard(kind) && request.unsubscribe.is_empty()
        } else {
            names.iter().any(|name| name == WILDCARD)
        };
        subscription.greet = subscription.wildcard
            && versions.is_empty()
            && matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let names: HashSet<String> = names.into_iter().filter(|name| name != WILDCARD).collect();
        for (name, version) in versions {
            if self.subscriptions[kind].wildcard || names.contains(&name) {
                self.brings(kind, name, version);
            }
        }
        for name in names {
            self.subscribe_first(kind, &name);
        }
        if self.subscriptions[kind].wildcard {
            self.mark_all(kind);
        }
        if kind == ResourceType::Endpoints {
            for name in std::mem::take(&mut self.fresh_clusters) {
                if self.covers(kind, &name) {
                    self.mark(kind, name, true);
                }
            }
        }
    }

    /// A name of the first request: sent unless the client has it.
    fn subscribe_first(&mut self, kind: ResourceType, name: &str) {
        let name = self.shared_name(kind, name);
        let subscription = &mut self.subscriptions[kind];
        subscription.names.insert(name.clone());
        let has_it = subscription.rows.contains(&name);
        self.mark(kind, name.clone(), !has_it);
        if kind == ResourceType::RouteConfiguration && (has_it || self.dialect.inline) {
            self.mark_virtual_hosts(&name, false);
        }
    }

    /// The client has this version from an earlier stream. Names and versions are shared with the
    /// snapshot where they are the same.
    fn brings(&mut self, kind: ResourceType, name: String, version: String) {
        let snapshot = Arc::clone(&self.snapshot);
        let published = if self.holds_virtual_hosts(kind) {
            snapshot.inlined(&name)
        } else {
            snapshot.get(kind, &name)
        };
        match published {
            Some(entry) if *entry.version == *version => {
                self.has(kind, snapshot.get(kind, &name));
                if self.holds_virtual_hosts(kind) {
                    for host in snapshot.virtual_hosts(&name) {
                        self.has(ResourceType::VirtualHost, Some(host));
                    }
                }
            }
            Some(entry) => {
                let rows = &mut self.subscriptions[kind].rows;
                rows.known(entry.name.clone(), version.into());
            }
            None => {
                let rows = &mut self.subscriptions[kind].rows;
                rows.known(name.into(), version.into());
            }
        }
    }

    /// The client has this form.
    pub(super) fn has(&mut self, kind: ResourceType, entry: Option<&Arc<Entry>>) {
        let Some(entry) = entry else { return };
        let repeats = self.repeats(kind);
        let subscription = &mut self.subscriptions[kind];
        subscription
            .rows
            .known(entry.name.clone(), entry.version.clone());
        if repeats {
            subscription.forms.insert(entry.name.clone(), entry.clone());
        }
    }

    /// A name of a later request: sent even if the client has it, because it may have dropped it.
    fn subscribe(&mut self, kind: ResourceType, name: &str) {
        if name == WILDCARD {
            self.subscriptions[kind].wildcard = true;
            self.mark_all(kind);
            return;
        }
        let name = self.shared_name(kind, name);
        let subscription = &mut self.subscriptions[kind];
        if kind == ResourceType::RouteConfiguration {
            subscription.rows.remove(&name);
        }
        subscription.names.insert(name.clone());
        if self.holds_virtual_hosts(kind) {
            self.mark_virtual_hosts(&name, false);
        }
        self.mark(kind, name, true);
    }

    fn unsubscribe(&mut self, kind: ResourceType, name: &str) {
        let subscription = &mut self.subscriptions[kind];
        if name == WILDCARD {
            subscription.wildcard = false;
            let dropped: Vec<_> = subscription
                .rows
                .names()
                .filter(|name| !subscription.names.contains(*name))
                .cloned()
                .collect();
            subscription
                .dirty
                .retain(|(_, name), _| subscription.names.contains(name));
            for name in dropped {
                self.forget(kind, &name);
            }
            return;
        }
        if !subscription.names.remove(name) {
            return;
        }
        if !subscription.wildcard {
            subscription.dirty.remove(&(kind, name.into()));
            self.forget(kind, name);
        } else if !self.dialect.sotw {
            // The client has to be told whether the wildcard covers it.
            subscription.mark((kind, name.into()), true);
        }
    }

    /// Looks at everything that there is and that the client has.
    pub(super) fn mark_all(&mut self, kind: ResourceType) {
        let snapshot = Arc::clone(&self.snapshot);
        // Virtual hosts of a route configuration that is gone are not taken from a client while it
        // may still drain; one that brings them along is told, once it is known what is gone.
        let gone = kind == ResourceType::VirtualHost && !self.is_silent(kind);
        let known: Vec<_> = self.rows(kind).names().cloned().collect();
        for name in known {
            if snapshot.get(kind, &name).is_none() {
                self.mark(kind, name, gone);
            }
        }
        for entry in snapshot.all(kind) {
            let fresh = gone && is_of(&self.fresh, &entry.name);
            self.mark(kind, entry.name.clone(), fresh);
            if self.holds_virtual_hosts(kind) {
                self.mark_virtual_hosts(&entry.name, false);
            }
        }
    }

    /// The snapshot's copy of the name, if it has one.
    fn shared_name(&self, kind: ResourceType, name: &str) -> Arc<str> {
        match self.snapshot.get(kind, name) {
            Some(entry) => entry.name.clone(),
            None => name.into(),
        }
    }
}

/// Whether an empty first request of the type asks for everything. Of virtual hosts Envoy sends one
/// a stream, however many route configurations there are.
const fn has_legacy_wildcard(kind: ResourceType) -> bool {
    matches!(
        kind,
        ResourceType::Cluster | ResourceType::Listener | ResourceType::VirtualHost
    )
}

fn is_of(route_configs: &std::collections::BTreeSet<Arc<str>>, virtual_host: &str) -> bool {
    crate::resource::route_config_of(virtual_host)
        .is_some_and(|route_config| route_configs.contains(route_config))
}
