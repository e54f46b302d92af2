//! The protocol of one stream, without any I/O.
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
//! Delta and state of the world share all of this. A [`Dialect`] says how a client is spoken to; the
//! difference is how a request is read (`sotw`) and that some responses repeat what is unchanged
//! (`contents`).
//!
//! - `requests`: subscriptions;
//! - `sotw`: requests of the state of the world, said in delta;
//! - `returning`: what clients of the state of the world cannot say when they return;
//! - `answers`: acknowledgements and rejections;
//! - `responses`: which names go into a response;
//! - `contents`: what a response holds besides;
//! - `order`: what has to wait for what.

mod answers;
mod contents;
mod order;
mod requests;
mod responses;
mod returning;
mod sotw;
mod subscription;
#[cfg(test)]
mod tests;

use crate::ResourceType;
use crate::per_type::PerType;
use crate::resource::route_config_of;
use crate::rows::{Rows, Verdict};
use crate::snapshot::{Entry, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subscription::Subscription;

pub(crate) use answers::Feedback;
pub(crate) use requests::Request;
pub(crate) use returning::Clusters;
pub(crate) use sotw::StateRequest;

/// How a client is spoken to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialect {
    /// State of the world, not delta.
    pub sotw: bool,
    /// The client does not know VHDS: its route configurations hold their virtual hosts. The rows of
    /// virtual hosts are kept all the same, so one that it acknowledged is known to be.
    pub inline: bool,
}

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
#[derive(Clone, Debug)]
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
    dialect: Dialect,
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
    /// Clusters from an earlier stream that it cannot say that it has. Empty from the first response on.
    had: Clusters,
    /// Clusters that the newest response repeats in an earlier form than that which was sent last.
    reverted_clusters: BTreeSet<Arc<str>>,
    nonce: u64,
    opened: Instant,
    synced: bool,
}

impl Session {
    /// A stream that was opened now.
    pub fn new(limits: Limits, dialect: Dialect, snapshot: Arc<Snapshot>, now: Instant) -> Self {
        Self {
            limits,
            dialect,
            snapshot,
            subscriptions: PerType::default(),
            fresh: BTreeSet::new(),
            fresh_clusters: BTreeSet::new(),
            returned: false,
            had: Clusters::new(),
            reverted_clusters: BTreeSet::new(),
            nonce: 0,
            opened: now,
            synced: false,
        }
    }

    /// Takes a newer snapshot. What it changes is sent by the next [`Session::poll`].
    pub fn update(&mut self, next: Arc<Snapshot>) {
        let was_silent = self.is_silent(ResourceType::VirtualHost);
        let before = std::mem::replace(&mut self.snapshot, next);
        let virtual_hosts = &self.subscriptions[ResourceType::VirtualHost];
        if was_silent && virtual_hosts.wildcard && !self.is_silent(ResourceType::VirtualHost) {
            self.mark_all(ResourceType::VirtualHost);
        }
        for kind in ResourceType::ALL {
            if !self.is_requested(kind) {
                continue;
            }
            for name in before.changed_names(&self.snapshot, kind) {
                // It may come back without some of the virtual hosts that it went with; and those
                // that could not be sent for want of an acceptable form of it are sent with this one.
                let is_new = before.get(kind, &name).is_none() || self.dialect.inline;
                if kind == ResourceType::RouteConfiguration && is_new {
                    self.mark_virtual_hosts(&name, false);
                }
                if kind == ResourceType::Cluster
                    && self.snapshot.get(kind, &name).is_none()
                    && let Some(gone) = before.get(kind, &name)
                {
                    self.note_gone_cluster(gone);
                }
                self.mark(kind, name, false);
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
        self.settled() >= Some(generation)
    }

    /// The newest publish of which the client has accepted everything; none while something waits.
    pub fn settled(&self) -> Option<u64> {
        let is_settled = self.synced
            && self.is_whole()
            && self.subscriptions.iter().all(|(_, subscription)| {
                let rows = &subscription.rows;
                subscription.is_settled() && rows.nacked() == 0 && rows.acked() == rows.len()
            });
        is_settled.then_some(self.snapshot.generation)
    }

    /// What the client was sent of a type, and what it said.
    pub fn rows(&self, kind: ResourceType) -> &Rows {
        &self.subscriptions[kind].rows
    }

    /// Types that the client has asked for.
    pub fn requested(&self) -> impl Iterator<Item = ResourceType> {
        ResourceType::ALL
            .into_iter()
            .filter(|kind| self.is_requested(*kind))
    }

    /// Whether the client may ask for the type.
    pub fn serves(&self, kind: ResourceType) -> bool {
        self.carrier(kind) == kind
    }

    /// How things stand with one version of one resource. What a client that chooses its listeners
    /// has not chosen does not concern it.
    pub fn verdict(&self, kind: ResourceType, name: &str, version: &str) -> Verdict {
        if self.is_selective() && !self.covers(kind, name) {
            return Verdict::Unconcerned;
        }
        self.rows(kind).verdict(name, version)
    }

    /// Whether the client may not be told of the type yet. Before the group is ready a client that
    /// returns is told nothing at all: what it was told last is no older than what was restored.
    fn is_silent(&self, kind: ResourceType) -> bool {
        self.snapshot.is_silent(kind) || (self.returned && !self.snapshot.is_ready())
    }

    /// Whether the client names the listeners that it wants, as gRPC does.
    fn is_selective(&self) -> bool {
        let listeners = &self.subscriptions[ResourceType::Listener];
        listeners.opened && !listeners.wildcard
    }

    fn is_requested(&self, kind: ResourceType) -> bool {
        self.subscriptions[self.carrier(kind)].opened
    }

    /// The type in whose responses resources of the type are.
    fn carrier(&self, kind: ResourceType) -> ResourceType {
        match kind {
            ResourceType::VirtualHost if self.dialect.inline => ResourceType::RouteConfiguration,
            _ => kind,
        }
    }

    /// Whether the client wants to hear of the resource.
    fn covers(&self, kind: ResourceType, name: &str) -> bool {
        if self.carrier(kind) == kind {
            return self.subscriptions[kind].covers(name);
        }
        let route_configs = &self.subscriptions[ResourceType::RouteConfiguration];
        route_config_of(name).is_some_and(|route_config| route_configs.covers(route_config))
    }

    /// Has the next response look at the resource, if the client wants to hear of it.
    fn mark(&mut self, kind: ResourceType, name: Arc<str>, force: bool) {
        let wanted = self.covers(kind, &name) || self.rows(kind).contains(&name);
        let carrier = self.carrier(kind);
        let queue = &mut self.subscriptions[carrier];
        if queue.opened && wanted {
            queue.mark((kind, name), force);
        }
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
        self.is_selective()
            || kinds
                .into_iter()
                .all(|kind| self.rows(kind).len() >= self.snapshot.len(kind))
    }

    /// The client wants to hear no more of the resource, and drops it.
    fn forget(&mut self, kind: ResourceType, name: &str) {
        self.drop_row(kind, name);
        if kind == ResourceType::RouteConfiguration {
            // Envoy does not use them any more, but would claim to have them at a reconnect: they
            // are told as removed, or sent anew if the route configuration is back before.
            for virtual_host in self.rows(ResourceType::VirtualHost).under(name) {
                self.mark(ResourceType::VirtualHost, virtual_host, true);
            }
        }
    }

    /// The client has the resource no longer, and what was in it.
    fn drop_row(&mut self, kind: ResourceType, name: &str) {
        let subscription = &mut self.subscriptions[kind];
        subscription.rows.remove(name);
        subscription.forms.remove(name);
        if kind != ResourceType::RouteConfiguration {
            return;
        }
        self.fresh.remove(name);
        if self.dialect.inline {
            for virtual_host in self.rows(ResourceType::VirtualHost).under(name) {
                self.drop_row(ResourceType::VirtualHost, &virtual_host);
            }
        }
    }

    /// Marks the virtual hosts of a route configuration, those that are gone included.
    fn mark_virtual_hosts(&mut self, route_config: &str, force: bool) {
        let snapshot = Arc::clone(&self.snapshot);
        let known = self.rows(ResourceType::VirtualHost).under(route_config);
        let published = snapshot.virtual_hosts(route_config);
        for name in known
            .into_iter()
            .chain(published.map(|entry| entry.name.clone()))
        {
            self.mark(ResourceType::VirtualHost, name, force);
        }
    }
}
