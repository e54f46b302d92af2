//! What a response holds besides what has changed.
//!
//! A delta response holds what has changed. In the state of the world one of clusters or listeners
//! holds all of them, or the client drops those that are missing; and for a client without VHDS a
//! route configuration holds all its virtual hosts. What is repeated is repeated in the form that
//! the client was sent last, or, if it rejected that, or may have, in the one that it accepted last;
//! if it has accepted none on this stream, in the one that any client of its group accepted last. So
//! while the culprit of a rejection is searched, and after, everything else stays.

use super::Session;
use super::subscription::Part;
use crate::ResourceType;
use crate::inline::inline;
use crate::resource::route_config_of;
use crate::snapshot::Entry;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Resources of a response.
#[derive(Default)]
pub(super) struct Contents {
    pub resources: Vec<Arc<Entry>>,
    /// Which of them, and of what is in them, the client has not accepted yet.
    pub parts: Vec<(ResourceType, Arc<Entry>)>,
}

impl Session {
    /// Whether a response of the type holds everything, and what is not in it is gone.
    pub(super) fn holds_everything(&self, kind: ResourceType) -> bool {
        self.dialect.sotw && matches!(kind, ResourceType::Cluster | ResourceType::Listener)
    }

    /// Whether responses of route configurations hold their virtual hosts.
    pub(super) fn holds_virtual_hosts(&self, kind: ResourceType) -> bool {
        self.dialect.inline && kind == ResourceType::RouteConfiguration
    }

    /// Whether responses repeat resources of the type that have not changed.
    pub(super) fn repeats(&self, kind: ResourceType) -> bool {
        self.holds_everything(kind) || self.holds_virtual_hosts(self.carrier(kind))
    }

    /// Whether a client can be told that a resource of the type is gone.
    pub(super) fn tells_removals(&self, kind: ResourceType) -> bool {
        !self.dialect.sotw || self.holds_everything(kind) || self.carrier(kind) != kind
    }

    /// The form in which a resource is repeated; none if it is left out.
    pub(super) fn form(&self, kind: ResourceType, name: &str) -> Option<Arc<Entry>> {
        let subscription = &self.subscriptions[kind];
        let row = subscription.rows.get(name)?;
        let own = || subscription.forms.get(name).cloned();
        match self.snapshot.get(kind, name) {
            Some(entry) if row.nack.is_none() && row.sent == entry.version => Some(entry.clone()),
            Some(entry) => own().or_else(|| {
                let form = self.snapshot.accepted.get(kind, &entry.name)?;
                let rejected = row
                    .nack
                    .as_ref()
                    .is_some_and(|nack| nack.version == form.version);
                (!rejected).then_some(form)
            }),
            None => own(),
        }
    }

    /// A response of the type that holds everything.
    pub(super) fn everything(&self, kind: ResourceType) -> Contents {
        let mut contents = Contents::default();
        for name in self.rows(kind).names() {
            if let Some(entry) = self.form(kind, name) {
                self.add_part(kind, &entry, &mut contents);
                contents.resources.push(entry);
            }
        }
        contents
    }

    /// A response of these route configurations with their virtual hosts.
    pub(super) fn route_configs(&self, names: &BTreeSet<Arc<str>>) -> Contents {
        let mut contents = Contents::default();
        for name in names {
            let Some(base) = self.form(ResourceType::RouteConfiguration, name) else {
                continue;
            };
            self.add_part(ResourceType::RouteConfiguration, &base, &mut contents);
            let virtual_hosts: Vec<_> = self
                .rows(ResourceType::VirtualHost)
                .under(name)
                .into_iter()
                .filter_map(|host| self.form(ResourceType::VirtualHost, &host))
                .collect();
            for host in &virtual_hosts {
                self.add_part(ResourceType::VirtualHost, host, &mut contents);
            }
            contents.resources.push(self.inlined(&base, &virtual_hosts));
        }
        contents
    }

    /// The route configuration with these virtual hosts: shared by all streams if they are those
    /// that are published.
    fn inlined(&self, base: &Arc<Entry>, virtual_hosts: &[Arc<Entry>]) -> Arc<Entry> {
        let snapshot = &self.snapshot;
        let published = snapshot.get(ResourceType::RouteConfiguration, &base.name);
        let are_published = published.is_some_and(|published| Arc::ptr_eq(published, base))
            && snapshot.virtual_hosts(&base.name).count() == virtual_hosts.len()
            && snapshot
                .virtual_hosts(&base.name)
                .zip(virtual_hosts)
                .all(|(published, host)| Arc::ptr_eq(published, host));
        match snapshot.inlined(&base.name) {
            Some(whole) if are_published => whole.clone(),
            _ => Arc::new(inline(base, virtual_hosts.iter())),
        }
    }

    /// Notes what the client may accept or reject with the response; not what it accepted before.
    fn add_part(&self, kind: ResourceType, entry: &Arc<Entry>, contents: &mut Contents) {
        let row = self.rows(kind).get(&entry.name);
        if row.is_some_and(|row| row.sent == entry.version && !row.is_acked()) {
            contents.parts.push((kind, entry.clone()));
        }
    }

    /// About the bytes of a route configuration with its virtual hosts.
    pub(super) fn inlined_size(&self, route_config: &str) -> usize {
        let base = self
            .snapshot
            .get(ResourceType::RouteConfiguration, route_config);
        self.snapshot
            .virtual_hosts(route_config)
            .chain(base)
            .map(|entry| entry.wire_size())
            .sum()
    }

    /// The route configuration with which a part is sent; none if parts are sent by themselves.
    pub(super) fn route_config_with(&self, (kind, name): &Part) -> Option<Arc<str>> {
        if !self.holds_virtual_hosts(self.carrier(*kind)) {
            return None;
        }
        match kind {
            ResourceType::VirtualHost => route_config_of(name).map(Into::into),
            _ => Some(name.clone()),
        }
    }
}
