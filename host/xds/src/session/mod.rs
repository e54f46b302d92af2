//! The protocol of one delta stream, without any I/O.
//!
//! A [`Session`] is told of requests ([`Session::on_request`]) and of new snapshots
//! ([`Session::update`]), and asked for what may be sent now ([`Session::poll`]) and when to ask
//! again if nothing happens ([`Session::deadline`]). Time is an argument, so every rule can be
//! tested in no time.
//!
//! What is to be sent is a set of names for each type: a name is put there when its resource
//! changes or is asked for, and its newest form is looked up when a response is built. So changes
//! fold, and what waits is bounded by the number of resources.
//!
//! - `requests`: subscriptions, acknowledgements and rejections;
//! - `responses`: which names go into a response;
//! - `order`: what has to wait for what.

mod order;
mod requests;
mod responses;
mod subscription;
#[cfg(test)]
mod tests;

use crate::ResourceType;
use crate::per_type::PerType;
use crate::rows::{Rows, Verdict};
use crate::snapshot::{Entry, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subscription::Subscription;

pub(crate) use requests::{Feedback, Request};

/// Bounds of sizes and times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// About the bytes of a response, but for virtual hosts.
    pub response_bytes: usize,
    /// About the bytes of a response of virtual hosts.
    pub virtual_host_response_bytes: usize,
    /// Subscribed names of one stream.
    pub subscriptions: usize,
    /// How long listeners and routes wait for clusters and endpoints.
    pub make: Duration,
    /// How long removals wait for what may still refer to the removed.
    pub break_after: Duration,
    /// After this time without an answer another response of the type may follow.
    pub stuck: Duration,
    /// After this time a client counts as synced, whatever it has.
    pub sync: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 3 << 20,
            virtual_host_response_bytes: 32 << 20,
            subscriptions: 1_000_000,
            make: Duration::from_secs(1),
            break_after: Duration::from_secs(3),
            stuck: Duration::from_secs(5),
            sync: Duration::from_secs(10),
        }
    }
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Response {
    pub kind: ResourceType,
    pub nonce: String,
    pub generation: u64,
    pub resources: Vec<Arc<Entry>>,
    pub removed: Vec<Arc<str>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    limits: Limits,
    snapshot: Arc<Snapshot>,
    subscriptions: PerType<Subscription>,
    /// Route configurations that the client accepted on this stream and had not brought along: it
    /// has none of their virtual hosts, whatever it says.
    fresh: BTreeSet<Arc<str>>,
    /// Clusters that this stream was sent before its client asked for endpoints: it needs theirs,
    /// even those that it brings along.
    fresh_clusters: BTreeSet<Arc<str>>,
    /// Whether the client brought resources along from an earlier stream.
    returned: bool,
    nonce: u64,
    opened: Instant,
    synced: bool,
}

impl Session {
    /// A stream that was opened now.
    pub fn new(limits: Limits, snapshot: Arc<Snapshot>, now: Instant) -> Self {
        Self {
            limits,
            snapshot,
            subscriptions: PerType::default(),
            fresh: BTreeSet::new(),
            fresh_clusters: BTreeSet::new(),
            returned: false,
            nonce: 0,
            opened: now,
            synced: false,
        }
    }

    /// Takes a newer snapshot. What it changes is sent by the next [`Session::poll`].
    pub fn update(&mut self, next: Arc<Snapshot>) {
        let before = std::mem::replace(&mut self.snapshot, next);
        for kind in ResourceType::ALL {
            if !self.subscriptions[kind].opened {
                continue;
            }
            for name in before.changed_names(&self.snapshot, kind) {
                if kind == ResourceType::RouteConfiguration && before.get(kind, &name).is_none() {
                    // It may come back without some of the virtual hosts that it went with.
                    self.mark_virtual_hosts(&name, false);
                }
                self.subscriptions[kind].mark(name, false);
            }
        }
    }

    /// What may be sent now, in order.
    pub fn poll(&mut self, now: Instant) -> Vec<Response> {
        let mut responses = Vec::new();
        for kind in ResourceType::ALL {
            if !self.is_silent(kind) && self.may_put(kind, now) {
                responses.extend(self.next_puts(kind, now));
            }
            self.subscriptions[kind].settle();
        }
        for kind in order::REMOVALS {
            let may_send = self.subscriptions[kind].may_send(now, self.limits.stuck);
            if may_send && !self.is_silent(kind) {
                responses.extend(self.next_removals(kind, now));
            }
        }
        self.synced |= self.is_in_sync(now);
        responses
    }

    /// When to poll if nothing happens before. Of use right after a poll at the same time.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let speaks = |kind: &ResourceType| !self.is_silent(*kind);
        let may_sync = !self.synced && speaks(&ResourceType::Listener);
        let sync = may_sync.then_some(self.opened + self.limits.sync);
        ResourceType::ALL
            .into_iter()
            .filter(speaks)
            .flat_map(|kind| self.deadlines(kind, now))
            .chain(sync)
            .min()
    }

    /// Whether the client had everything that its group has, once.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Whether the client has accepted all that there was at a publish, and nothing waits.
    pub fn is_settled(&self, generation: u64) -> bool {
        self.synced
            && self.snapshot.generation >= generation
            && self.is_whole()
            && self.subscriptions.iter().all(|(_, subscription)| {
                let rows = &subscription.rows;
                subscription.is_settled() && rows.nacked() == 0 && rows.acked() == rows.len()
            })
    }

    /// What the client was sent of a type, and what it said.
    pub fn rows(&self, kind: ResourceType) -> &Rows {
        &self.subscriptions[kind].rows
    }

    /// Types that the client has asked for.
    pub fn requested(&self) -> impl Iterator<Item = ResourceType> {
        self.subscriptions
            .iter()
            .filter(|(_, subscription)| subscription.opened)
            .map(|(kind, _)| kind)
    }

    /// How things stand with one version of one resource.
    pub fn verdict(&self, kind: ResourceType, name: &str, version: &str) -> Verdict {
        self.rows(kind).verdict(name, version)
    }

    /// Whether the client may not be told of the type yet. Before the group is ready a client that
    /// returns is told nothing at all: what it was told last is no older than what was restored.
    fn is_silent(&self, kind: ResourceType) -> bool {
        self.snapshot.is_silent(kind) || (self.returned && !self.snapshot.is_ready())
    }

    /// A client has everything when nothing waits or is under way, and nothing of the types that
    /// every proxy needs is missing: between a listener and the request for its routes nothing
    /// waits either. What the client may not be told of yet does not count.
    fn is_in_sync(&self, now: Instant) -> bool {
        if self.is_silent(ResourceType::Listener) {
            return false;
        }
        if now >= self.opened + self.limits.sync {
            return true;
        }
        self.subscriptions[ResourceType::Listener].opened
            && self
                .subscriptions
                .iter()
                .all(|(kind, subscription)| self.is_silent(kind) || subscription.is_settled())
            && self.is_whole()
    }

    /// Whether the client was sent all that there is of the types that every proxy needs.
    fn is_whole(&self) -> bool {
        let kinds = [
            ResourceType::Cluster,
            ResourceType::Listener,
            ResourceType::RouteConfiguration,
            ResourceType::VirtualHost,
        ];
        kinds
            .into_iter()
            .all(|kind| self.rows(kind).len() >= self.snapshot.len(kind))
    }

    /// The client wants to hear no more of the resource, and drops it.
    fn forget(&mut self, kind: ResourceType, name: &str) {
        self.subscriptions[kind].rows.remove(name);
        if kind == ResourceType::RouteConfiguration {
            self.fresh.remove(name);
            // Envoy does not use them any more, but would claim to have them at a reconnect: they
            // are told as removed, or sent anew if the route configuration is back before.
            let virtual_hosts = &mut self.subscriptions[ResourceType::VirtualHost];
            for virtual_host in virtual_hosts.rows.under(name) {
                virtual_hosts.mark(virtual_host, true);
            }
        }
    }

    /// Marks the virtual hosts of a route configuration, those that are gone included.
    fn mark_virtual_hosts(&mut self, route_config: &str, force: bool) {
        let snapshot = Arc::clone(&self.snapshot);
        let virtual_hosts = &mut self.subscriptions[ResourceType::VirtualHost];
        for name in virtual_hosts.rows.under(route_config) {
            virtual_hosts.mark(name, force);
        }
        for entry in snapshot.virtual_hosts(route_config) {
            virtual_hosts.mark(entry.name.clone(), force);
        }
    }
}
