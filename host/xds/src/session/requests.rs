//! What a client says: subscriptions, acknowledgements, rejections.

use super::Session;
use super::subscription::InFlight;
use crate::ResourceType;
use crate::rows::Nack;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// The name that subscribes to everything.
const WILDCARD: &str = "*";

/// A delta request, without what does not matter to a session.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub subscribe: Vec<String>,
    pub unsubscribe: Vec<String>,
    pub initial_versions: HashMap<String, String>,
    /// Of the response that it answers; empty if it answers none.
    pub nonce: String,
    /// Why the response was rejected.
    pub error: Option<String>,
}

/// What a request said that others want to know.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    /// It rejected a response.
    pub rejected: bool,
    /// Names and versions whose fault the rejection is, as far as that is known: of a response with
    /// several resources, parts are sent again until it is.
    pub culprits: Vec<(Arc<str>, Arc<str>)>,
    /// The client has too many subscriptions.
    pub too_many: bool,
}

impl Session {
    /// Takes a request. What it asks for is sent by the next [`Session::poll`].
    pub fn on_request(&mut self, kind: ResourceType, request: Request) -> Feedback {
        let mut feedback = Feedback::default();
        if !request.nonce.is_empty() {
            self.on_answer(kind, &request.nonce, request.error, &mut feedback);
        }
        for name in &request.unsubscribe {
            self.unsubscribe(kind, name);
        }
        if self.subscriptions[kind].opened {
            for name in &request.subscribe {
                self.subscribe(kind, name);
            }
        } else {
            self.open(kind, request.subscribe, request.initial_versions);
        }
        let names = self.subscriptions.iter().map(|(_, s)| s.names.len());
        feedback.too_many = names.sum::<usize>() > self.limits.subscriptions;
        feedback
    }

    /// The first request of a type: what the client has it keeps, so only differences are sent.
    fn open(&mut self, kind: ResourceType, names: Vec<String>, versions: HashMap<String, String>) {
        let snapshot = Arc::clone(&self.snapshot);
        self.returned |= !versions.is_empty();
        let subscription = &mut self.subscriptions[kind];
        subscription.opened = true;
        subscription.changed += 1;
        // An empty first request asks for everything, of the types that clients know no names of.
        subscription.wildcard = if names.is_empty() {
            has_legacy_wildcard(kind)
        } else {
            names.iter().any(|name| name == WILDCARD)
        };
        subscription.greet = subscription.wildcard
            && versions.is_empty()
            && matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let names: HashSet<String> = names.into_iter().filter(|name| name != WILDCARD).collect();
        for (name, version) in versions {
            if subscription.wildcard || names.contains(&name) {
                // Names and versions are shared with the snapshot where they are the same.
                let (name, version) = match snapshot.get(kind, &name) {
                    Some(entry) if *entry.version == *version => {
                        (entry.name.clone(), entry.version.clone())
                    }
                    Some(entry) => (entry.name.clone(), version.into()),
                    None => (name.into(), version.into()),
                };
                subscription.rows.known(name, version);
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
                let endpoints = &mut self.subscriptions[kind];
                if endpoints.covers(&name) {
                    endpoints.mark(name, true);
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
        subscription.mark(name.clone(), !has_it);
        if has_it && kind == ResourceType::RouteConfiguration {
            self.mark_virtual_hosts(&name, false);
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
        subscription.mark(name, true);
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
                .retain(|name, _| subscription.names.contains(name));
            for name in dropped {
                self.forget(kind, &name);
            }
            return;
        }
        if !subscription.names.remove(name) {
            return;
        }
        if subscription.wildcard {
            // The client has to be told whether the wildcard covers it.
            subscription.answer(name.into());
        } else {
            subscription.dirty.remove(name);
            self.forget(kind, name);
        }
    }

    /// Looks at everything that there is and that the client has.
    fn mark_all(&mut self, kind: ResourceType) {
        let snapshot = Arc::clone(&self.snapshot);
        let subscription = &mut self.subscriptions[kind];
        // Virtual hosts of a route configuration that is gone are not taken from a client while it
        // may still drain; one that brings them along is told.
        let gone = kind == ResourceType::VirtualHost;
        let known: Vec<_> = subscription.rows.names().cloned().collect();
        for name in known {
            if snapshot.get(kind, &name).is_none() {
                subscription.mark(name, gone);
            }
        }
        for entry in snapshot.all(kind) {
            let fresh = gone && is_of(&self.fresh, &entry.name);
            subscription.mark(entry.name.clone(), fresh);
        }
    }

    fn on_answer(
        &mut self,
        kind: ResourceType,
        nonce: &str,
        error: Option<String>,
        feedback: &mut Feedback,
    ) {
        let subscription = &mut self.subscriptions[kind];
        let in_flight = &mut subscription.in_flight;
        let Some(position) = in_flight.iter().position(|sent| sent.nonce == nonce) else {
            return;
        };
        let Some(response) = in_flight.remove(position) else {
            return;
        };
        if let Some(text) = error {
            feedback.rejected = true;
            feedback.culprits = self.on_rejection(kind, &response, &text);
        } else {
            for (name, version) in &response.resources {
                self.on_accept(kind, name, version);
            }
        }
        self.subscriptions[kind].answered(&response);
    }

    fn on_accept(&mut self, kind: ResourceType, name: &Arc<str>, version: &Arc<str>) {
        let has_any = |session: &Self| {
            let row = session.rows(kind).get(name);
            row.is_some_and(|row| row.acked.is_some())
        };
        let is_first = !has_any(self);
        self.subscriptions[kind].rows.accept(name, version);
        // A client that never had the route configuration has none of its virtual hosts.
        if kind == ResourceType::RouteConfiguration && is_first && has_any(self) {
            self.fresh.insert(name.clone());
            self.mark_virtual_hosts(name, true);
        }
    }

    /// Finds whose fault a rejection is, or has the response sent again in parts.
    ///
    /// What a client keeps of a response that it rejects is its affair, so the innocent are sent
    /// again, and removals too. The text names culprits only for clusters and listeners. Else halves of the response
    /// are tried until single resources are left, so a version is sent again a few times (the
    /// logarithm of the response's size), and once it is found guilty not at all.
    fn on_rejection(
        &mut self,
        kind: ResourceType,
        response: &InFlight,
        text: &str,
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let subscription = &mut self.subscriptions[kind];
        let suspects: Vec<_> = response
            .resources
            .iter()
            .filter(|(name, version)| {
                let row = subscription.rows.get(name);
                row.is_some_and(|row| row.sent == *version)
            })
            .cloned()
            .collect();
        let tells = matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let (mut guilty, mut rest): (Vec<_>, Vec<_>) = suspects
            .into_iter()
            .partition(|(name, _)| tells && mentions(text, name));
        // A single one that is left may be innocent: others were in the response with it.
        if guilty.is_empty() && response.resources.len() == 1 {
            std::mem::swap(&mut guilty, &mut rest);
        }
        if !response.resources.is_empty() {
            for name in &response.removed {
                if subscription.covers(name) {
                    subscription.answer(name.clone());
                }
            }
        }
        for (name, version) in &guilty {
            let nack = Nack {
                version: version.clone(),
                text: text.to_owned(),
                at: SystemTime::now(),
            };
            subscription.rows.reject(name, nack);
        }
        let second = if guilty.is_empty() {
            rest.split_off(rest.len() / 2)
        } else {
            Vec::new()
        };
        for part in [second, rest].into_iter().filter(|part| !part.is_empty()) {
            let part: Vec<_> = part.into_iter().map(|(name, _)| name).collect();
            for name in &part {
                subscription.rows.doubt(name);
            }
            subscription.retry.push_front(part);
        }
        guilty
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

/// Whether the text has the name as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    text.match_indices(name).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let rest = &text[start + found.len()..];
        let mut after = rest.chars();
        // A full stop that ends a sentence is not part of a name.
        let follows = match after.next() {
            Some('.') => after.next().is_some_and(part_of_name),
            Some(c) => part_of_name(c),
            None => false,
        };
        !before.is_some_and(part_of_name) && !follows && !name.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn a_name_is_mentioned_only_as_a_word() {
        let text = "Error adding/updating listener(s) http-8080: bad filter. See also: a_b.";
        assert!(mentions(text, "http-8080"));
        assert!(mentions(text, "a_b"));
        assert!(!mentions(text, "http-80"));
        assert!(!mentions(text, "8080"));
        assert!(!mentions(text, "a_"));
        assert!(!mentions(text, ""));
    }
}
