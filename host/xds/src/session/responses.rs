//! Which names go into a response.

use super::contents::Contents;
use super::subscription::{InFlight, Part};
use super::{Response, Session, order};
use crate::ResourceType;
use crate::resource::route_config_of;
use crate::rows::Verdict;
use crate::snapshot::Entry;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// What is to be done about a name.
enum Step {
    /// Nothing.
    Skip,
    /// Send it.
    Put(Arc<Entry>),
    /// Say that it is gone.
    Remove,
    /// Say later that it is gone.
    Leave,
    /// It is gone, and there is no way to say so.
    Drop,
}

/// What a response is made of while it is collected.
#[derive(Default)]
struct Batch {
    puts: Vec<(ResourceType, Arc<Entry>)>,
    removed: Vec<Part>,
    leaving: BTreeSet<Arc<str>>,
    /// Route configurations with their virtual hosts that are sent because a part of them is.
    route_configs: BTreeSet<Arc<str>>,
    bytes: usize,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.removed.is_empty()
    }
}

impl Session {
    /// The next response that puts resources; none if on a closer look nothing has changed.
    pub(super) fn next_puts(&mut self, kind: ResourceType, now: Instant) -> Option<Response> {
        if kind == ResourceType::Cluster {
            self.recall_clusters();
        }
        let mut batch = self.collect(kind);
        if !batch.leaving.is_empty() {
            self.leave(kind, std::mem::take(&mut batch.leaving), now);
        }
        if batch.is_empty() {
            self.collect_retry(kind, &mut batch);
        }
        let greet = std::mem::take(&mut self.subscriptions[kind].greet);
        if batch.is_empty() && !greet {
            return None;
        }
        self.respond(kind, batch, now)
    }

    /// The next response that only removes what had to wait.
    pub(super) fn next_removals(&mut self, kind: ResourceType, now: Instant) -> Option<Response> {
        let mut batch = Batch::default();
        while let Some(leaving) = self.subscriptions[kind].leaving.pop_front() {
            if !self.may_leave(kind, &leaving, now) {
                self.subscriptions[kind].leaving.push_front(leaving);
                break;
            }
            let gone = leaving.names.into_iter().filter(|name| {
                self.snapshot.get(kind, name).is_none() && self.rows(kind).contains(name)
            });
            batch.removed.extend(gone.map(|name| (kind, name)));
        }
        if batch.removed.is_empty() {
            return None;
        }
        self.respond(kind, batch, now)
    }

    /// Takes what is dirty, as much as a response may hold.
    fn collect(&mut self, carrier: ResourceType) -> Batch {
        let mut batch = Batch::default();
        let mut later = Vec::new();
        let mut full = BTreeSet::new();
        while let Some((part, force)) = self.subscriptions[carrier].dirty.pop_first() {
            let (kind, name) = (part.0, part.1.clone());
            let route_config = self.route_config_with(&part);
            if route_config
                .as_ref()
                .is_some_and(|name| full.contains(name))
            {
                later.push((part, force));
                continue;
            }
            match self.step(kind, &name, force) {
                Step::Put(entry) if self.fits(&part, &entry, &mut batch) => {
                    self.take(&part, entry, &mut batch);
                }
                Step::Put(_) => {
                    later.push((part, force));
                    // Parts of other route configurations may have room.
                    let Some(route_config) = route_config else {
                        break;
                    };
                    full.insert(route_config);
                }
                Step::Remove => {
                    batch.route_configs.extend(route_config);
                    batch.bytes += name.len();
                    batch.removed.push(part);
                }
                Step::Leave => {
                    batch.leaving.insert(name);
                }
                Step::Drop => self.drop_row(kind, &name),
                Step::Skip => {}
            }
        }
        self.subscriptions[carrier].dirty.extend(later);
        batch
    }

    /// Whether the response has room for the resource. It has for the first one.
    fn fits(&self, part: &Part, entry: &Entry, batch: &mut Batch) -> bool {
        let bytes = match self.route_config_with(part) {
            Some(route_config) if batch.route_configs.contains(&route_config) => return true,
            Some(route_config) => self.inlined_size(&route_config),
            None => entry.wire_size(),
        };
        let limit = self.response_bytes(part.0);
        let fits =
            batch.puts.is_empty() || self.holds_everything(part.0) || batch.bytes + bytes <= limit;
        if fits {
            batch.bytes += bytes;
        }
        fits
    }

    /// Puts the resource into the response.
    fn take(&mut self, part: &Part, entry: Arc<Entry>, batch: &mut Batch) {
        let kind = part.0;
        self.before_put(kind, &entry);
        if kind == ResourceType::Cluster {
            self.reverted_clusters.remove(&entry.name);
        }
        let rows = &mut self.subscriptions[kind].rows;
        rows.sent(&entry.name, &entry.version);
        batch.route_configs.extend(self.route_config_with(part));
        batch.puts.push((kind, entry));
    }

    /// Takes one part of a rejected response.
    fn collect_retry(&mut self, carrier: ResourceType, batch: &mut Batch) {
        while let Some(parts) = self.subscriptions[carrier].retry.pop_front() {
            for part in parts {
                let (kind, name) = &part;
                let Step::Put(entry) = self.step(*kind, name, true) else {
                    continue;
                };
                let verdict = self.rows(*kind).verdict(name, &entry.version);
                if matches!(verdict, Verdict::Pending) {
                    self.take(&part, entry, batch);
                }
            }
            if !batch.puts.is_empty() {
                return;
            }
        }
    }

    fn step(&self, kind: ResourceType, name: &str, force: bool) -> Step {
        let row = self.rows(kind).get(name);
        let Some(entry) = self.snapshot.get(kind, name) else {
            return match row {
                _ if !self.tells_removals(kind) => Step::Drop,
                _ if force => Step::Remove,
                None => Step::Skip,
                Some(_) if self.goes_with_route_config(kind, name) => Step::Skip,
                Some(_) if order::refer_to(kind).is_empty() => Step::Remove,
                Some(_) => Step::Leave,
            };
        };
        if !self.covers(kind, name) {
            return Step::Skip;
        }
        if !self.is_reachable(kind, name) {
            return match row {
                Some(_) if force && !self.dialect.inline => Step::Remove,
                _ => Step::Skip,
            };
        }
        if !force && row.is_some_and(|row| row.sent == entry.version) {
            return Step::Skip;
        }
        Step::Put(entry.clone())
    }

    /// Envoy acknowledges and drops a virtual host whose route configuration it does not have, and
    /// claims to have it when it reconnects: so it gets none before it has accepted the route
    /// configuration. One that goes in its route configuration needs a form of that.
    fn is_reachable(&self, kind: ResourceType, name: &str) -> bool {
        kind != ResourceType::VirtualHost
            || route_config_of(name).is_some_and(|route_config| {
                let kind = ResourceType::RouteConfiguration;
                if self.dialect.inline {
                    return self.form(kind, route_config).is_some();
                }
                let row = self.rows(kind).get(route_config);
                row.is_some_and(|row| row.acked.is_some())
            })
    }

    /// Virtual hosts whose route configuration goes too are left to connections that still drain:
    /// Envoy keeps both until its listener is gone. If the route configuration comes back first,
    /// they are looked at again.
    fn goes_with_route_config(&self, kind: ResourceType, name: &str) -> bool {
        kind == ResourceType::VirtualHost
            && route_config_of(name).is_some_and(|route_config| {
                self.snapshot
                    .get(ResourceType::RouteConfiguration, route_config)
                    .is_none()
            })
    }

    /// The response of the batch, noted as sent; none if it would say nothing.
    fn respond(&mut self, carrier: ResourceType, batch: Batch, now: Instant) -> Option<Response> {
        for (kind, name) in &batch.removed {
            self.drop_row(*kind, name);
        }
        let contents = self.contents(carrier, &batch);
        self.follow_reverted_clusters(carrier, &contents);
        let removed: Vec<_> = batch
            .removed
            .iter()
            .filter(|(kind, _)| *kind == carrier && !self.dialect.sotw)
            .map(|(_, name)| name.clone())
            .collect();
        let says_nothing = contents.resources.is_empty() && removed.is_empty();
        if says_nothing && self.holds_virtual_hosts(carrier) {
            return None;
        }
        self.nonce += 1;
        let nonce = self.nonce.to_string();
        let subscription = &mut self.subscriptions[carrier];
        subscription.greet = false;
        subscription.nonce.clone_from(&nonce);
        subscription.in_flight.push_back(InFlight {
            nonce: nonce.clone(),
            parts: contents.parts,
            removed: batch.removed,
            covers: subscription
                .dirty
                .is_empty()
                .then_some(subscription.changed),
            sent_at: now,
        });
        Some(Response {
            kind: carrier,
            nonce,
            generation: self.snapshot.generation,
            resources: contents.resources,
            removed,
        })
    }

    fn contents(&self, carrier: ResourceType, batch: &Batch) -> Contents {
        if self.holds_everything(carrier) {
            return self.everything(carrier);
        }
        if self.holds_virtual_hosts(carrier) {
            return self.route_configs(&batch.route_configs);
        }
        let resources = batch.puts.iter().map(|(_, entry)| entry.clone()).collect();
        let parts = batch.puts.clone();
        Contents { resources, parts }
    }

    /// A cluster that is repeated in an earlier form than that sent last is made anew too, by a client
    /// that had taken the newer one from a response that it rejected for something else.
    fn follow_reverted_clusters(&mut self, carrier: ResourceType, contents: &Contents) {
        if carrier != ResourceType::Cluster || !self.holds_everything(carrier) {
            return;
        }
        for entry in &contents.resources {
            let row = self.rows(carrier).get(&entry.name);
            let is_reverted = row.is_some_and(|row| row.sent != entry.version);
            if is_reverted && self.reverted_clusters.insert(entry.name.clone()) {
                self.before_put(carrier, entry);
            }
        }
    }

    /// A cluster that is sent is made anew by the client, and waits for its endpoints.
    fn before_put(&mut self, kind: ResourceType, entry: &Entry) {
        if kind != ResourceType::Cluster {
            return;
        }
        let endpoints = &self.subscriptions[ResourceType::Endpoints];
        if !endpoints.opened {
            self.fresh_clusters.insert(entry.name.clone());
        } else if endpoints.covers(&entry.name) {
            self.mark(ResourceType::Endpoints, entry.name.clone(), true);
        }
    }

    const fn response_bytes(&self, kind: ResourceType) -> usize {
        match kind {
            // Each response has Envoy rebuild its table: as few as possible.
            ResourceType::VirtualHost if !self.dialect.inline => {
                self.limits.virtual_host_response_bytes
            }
            // One at a time. Envoy notes the hash of a secret before it looks at it, so it accepts
            // one that it rejected if it is sent again: the first answer is the only true one.
            ResourceType::Secret => 0,
            _ => self.limits.response_bytes,
        }
    }
}
