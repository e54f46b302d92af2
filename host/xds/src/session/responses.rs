//! Which names go into a response.

use super::subscription::InFlight;
use super::{Response, Session, order};
use crate::ResourceType;
use crate::resource::route_config_of;
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
}

/// What a response is made of while it is collected.
#[derive(Default)]
struct Batch {
    puts: Vec<Arc<Entry>>,
    removed: Vec<Arc<str>>,
    leaving: BTreeSet<Arc<str>>,
    bytes: usize,
}

impl Session {
    /// The next response that puts resources; none if on a closer look nothing has changed.
    pub(super) fn next_puts(&mut self, kind: ResourceType, now: Instant) -> Option<Response> {
        let mut batch = self.collect(kind);
        if !batch.leaving.is_empty() {
            self.leave(kind, std::mem::take(&mut batch.leaving), now);
        }
        if batch.puts.is_empty() && batch.removed.is_empty() {
            self.collect_retry(kind, &mut batch);
        }
        let greet = std::mem::take(&mut self.subscriptions[kind].greet);
        if batch.puts.is_empty() && batch.removed.is_empty() && !greet {
            return None;
        }
        Some(self.respond(kind, batch, now))
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
                self.snapshot.get(kind, name).is_none()
                    && self.subscriptions[kind].rows.contains(name)
            });
            batch.removed.extend(gone);
        }
        if batch.removed.is_empty() {
            return None;
        }
        Some(self.respond(kind, batch, now))
    }

    /// Takes dirty names, as many as a response may hold.
    fn collect(&mut self, kind: ResourceType) -> Batch {
        let mut batch = Batch::default();
        let limit = self.response_bytes(kind);
        while let Some((name, force)) = self.subscriptions[kind].dirty.pop_first() {
            match self.step(kind, &name, force) {
                Step::Put(entry) => {
                    let bytes = batch.bytes + entry.wire_size();
                    if bytes > limit && !batch.puts.is_empty() {
                        self.subscriptions[kind].dirty.insert(name, force);
                        break;
                    }
                    batch.bytes = bytes;
                    batch.puts.push(entry);
                }
                Step::Remove => {
                    batch.bytes += name.len();
                    batch.removed.push(name);
                }
                Step::Leave => {
                    batch.leaving.insert(name);
                }
                Step::Skip => {}
            }
        }
        batch
    }

    /// Takes one part of a rejected response.
    fn collect_retry(&mut self, kind: ResourceType, batch: &mut Batch) {
        while let Some(names) = self.subscriptions[kind].retry.pop_front() {
            for name in names {
                let Step::Put(entry) = self.step(kind, &name, true) else {
                    continue;
                };
                let verdict = self.verdict(kind, &name, &entry.version);
                if matches!(verdict, crate::rows::Verdict::Pending) {
                    batch.puts.push(entry);
                }
            }
            if !batch.puts.is_empty() {
                return;
            }
        }
    }

    fn step(&self, kind: ResourceType, name: &str, force: bool) -> Step {
        let subscription = &self.subscriptions[kind];
        let row = subscription.rows.get(name);
        let Some(entry) = self.snapshot.get(kind, name) else {
            return match row {
                _ if force => Step::Remove,
                None => Step::Skip,
                Some(_) if self.goes_with_route_config(kind, name) => Step::Skip,
                Some(_) if order::refer_to(kind).is_empty() => Step::Remove,
                Some(_) => Step::Leave,
            };
        };
        if !subscription.covers(name) {
            return Step::Skip;
        }
        if !self.is_reachable(kind, name) {
            return match row {
                Some(_) if force => Step::Remove,
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
    /// configuration.
    fn is_reachable(&self, kind: ResourceType, name: &str) -> bool {
        kind != ResourceType::VirtualHost
            || route_config_of(name).is_some_and(|route_config| {
                self.rows(ResourceType::RouteConfiguration)
                    .get(route_config)
                    .is_some_and(|row| row.acked.is_some())
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

    /// Notes that the batch is sent.
    fn respond(&mut self, kind: ResourceType, batch: Batch, now: Instant) -> Response {
        for entry in &batch.puts {
            self.before_put(kind, entry);
            self.subscriptions[kind]
                .rows
                .sent(&entry.name, &entry.version);
        }
        for name in &batch.removed {
            self.subscriptions[kind].rows.remove(name);
            self.fresh.remove(name);
        }
        self.nonce += 1;
        let nonce = self.nonce.to_string();
        let subscription = &mut self.subscriptions[kind];
        let resources = batch
            .puts
            .iter()
            .map(|entry| (entry.name.clone(), entry.version.clone()))
            .collect();
        subscription.greet = false;
        subscription.in_flight.push_back(InFlight {
            nonce: nonce.clone(),
            resources,
            removed: batch.removed.clone(),
            covers: subscription
                .dirty
                .is_empty()
                .then_some(subscription.changed),
            sent_at: now,
        });
        Response {
            kind,
            nonce,
            generation: self.snapshot.generation,
            resources: batch.puts,
            removed: batch.removed,
        }
    }

    /// A cluster that is sent is made anew by the client, and waits for its endpoints.
    fn before_put(&mut self, kind: ResourceType, entry: &Entry) {
        if kind != ResourceType::Cluster {
            return;
        }
        let endpoints = &mut self.subscriptions[ResourceType::Endpoints];
        if !endpoints.opened {
            self.fresh_clusters.insert(entry.name.clone());
        } else if endpoints.covers(&entry.name) {
            endpoints.mark(entry.name.clone(), true);
        }
    }

    const fn response_bytes(&self, kind: ResourceType) -> usize {
        match kind {
            // Each response has Envoy rebuild its table: as few as possible.
            ResourceType::VirtualHost => self.limits.virtual_host_response_bytes,
            _ => self.limits.response_bytes,
        }
    }
}
