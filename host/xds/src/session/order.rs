//! What has to wait for what: make before break.
//!
//! Types are sent in the order of [`ResourceType::ALL`], removals last. Sending in order is not
//! enough: Envoy warms a new cluster for a while after it was sent, and holds back its
//! acknowledgement until it is warm. So
//!
//! - listeners, route configurations and virtual hosts wait until clusters are acknowledged and
//!   endpoints sent;
//! - removals wait until everything that may still refer to the removed is acknowledged.
//!
//! Both wait for changes of the same or earlier publishes only, and no longer than a clock says;
//! what was waited for in vain is not waited for again.

use super::{Session, subscription::Leaving};
use crate::ResourceType;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Types whose removals wait, in the order in which they are sent. Those of listeners and virtual
/// hosts go with their changes: a new listener may need the address of a removed one.
pub(super) const REMOVALS: [ResourceType; 5] = [
    ResourceType::RouteConfiguration,
    ResourceType::ExtensionConfig,
    ResourceType::Secret,
    ResourceType::Cluster,
    ResourceType::Endpoints,
];

/// Types that refer to a type.
pub(super) const fn refer_to(kind: ResourceType) -> &'static [ResourceType] {
    use ResourceType::{Cluster, Listener, RouteConfiguration, VirtualHost};
    match kind {
        Cluster => &[Listener, RouteConfiguration, VirtualHost],
        ResourceType::Endpoints => &[Cluster, Listener, RouteConfiguration, VirtualHost],
        ResourceType::Secret => &[Cluster, Listener],
        ResourceType::ExtensionConfig | RouteConfiguration => &[Listener],
        Listener | VirtualHost => &[],
    }
}

impl Session {
    /// Whether a response that puts resources of the type may be sent now.
    pub(super) fn may_put(&mut self, kind: ResourceType, now: Instant) -> bool {
        let subscription = &self.subscriptions[kind];
        if !subscription.has_puts() || !subscription.may_send(now, self.limits.stuck) {
            return false;
        }
        let waits = kind >= ResourceType::Listener && !self.are_clusters_made();
        let subscription = &mut self.subscriptions[kind];
        if !waits {
            subscription.blocked_since = None;
            return true;
        }
        let since = *subscription.blocked_since.get_or_insert(now);
        if now < since + self.limits.make {
            return false;
        }
        subscription.blocked_since = None;
        for made in [ResourceType::Cluster, ResourceType::Endpoints] {
            let made = &mut self.subscriptions[made];
            made.given_up = made.changed;
        }
        true
    }

    fn are_clusters_made(&self) -> bool {
        let clusters = &self.subscriptions[ResourceType::Cluster];
        let endpoints = &self.subscriptions[ResourceType::Endpoints];
        clusters.clean.max(clusters.given_up) >= clusters.changed
            && endpoints.sent.max(endpoints.given_up) >= endpoints.changed
    }

    /// Has removals wait for what may refer to the removed.
    pub(super) fn leave(&mut self, kind: ResourceType, names: BTreeSet<Arc<str>>, now: Instant) {
        let after = refer_to(kind)
            .iter()
            .map(|other| self.subscriptions[self.carrier(*other)].changed.max(1))
            .collect();
        let leaving = &mut self.subscriptions[kind].leaving;
        // What went, came back and goes again waits for what refers to it now.
        for earlier in leaving.iter_mut() {
            earlier.names.retain(|name| !names.contains(name));
        }
        leaving.push_back(Leaving {
            names,
            after,
            since: now,
        });
    }

    /// The client rejected a resource and has the form before: removals of what that may refer to
    /// wait for the next form.
    pub(super) fn refers_on(&mut self, kind: ResourceType) {
        let next = self.subscriptions[self.carrier(kind)].changed + 1;
        for gone in REMOVALS {
            let Some(position) = refer_to(gone).iter().position(|other| *other == kind) else {
                continue;
            };
            for leaving in &mut self.subscriptions[gone].leaving {
                if let Some(mark) = leaving.after.get_mut(position) {
                    *mark = next;
                }
            }
        }
    }

    /// Whether removals need not wait any longer.
    pub(super) fn may_leave(&self, kind: ResourceType, leaving: &Leaving, now: Instant) -> bool {
        if now >= leaving.since + self.limits.break_after {
            return true;
        }
        let others = refer_to(kind).iter().zip(&leaving.after);
        others.into_iter().all(|(other, mark)| {
            let subscription = &self.subscriptions[self.carrier(*other)];
            if subscription.opened {
                // What rejects a form has the one before, which may refer to the removed.
                subscription.clean >= *mark
                    && subscription.leaving.is_empty()
                    && self.rows(*other).nacked() == 0
            } else {
                // A client that reconnects asks for one type after the other.
                now >= self.opened + self.limits.break_after
            }
        })
    }

    /// Times at which something of the type may be sent that may not be sent now.
    pub(super) fn deadlines(
        &self,
        kind: ResourceType,
        now: Instant,
    ) -> impl Iterator<Item = Instant> {
        let subscription = &self.subscriptions[kind];
        let leaving = subscription.leaving.front().map(|leaving| leaving.since);
        let waits = subscription.has_puts() || leaving.is_some();
        let stuck = subscription
            .in_flight
            .back()
            .map(|last| last.sent_at + self.limits.stuck);
        let times = match stuck {
            _ if !waits || !subscription.has_room() => [None, None, None],
            // While a response is under way nothing else of the type is due.
            Some(stuck) if stuck > now => [Some(stuck), None, None],
            _ => [
                subscription
                    .blocked_since
                    .map(|since| since + self.limits.make),
                leaving.map(|since| since + self.limits.break_after),
                leaving.map(|_| self.opened + self.limits.break_after),
            ],
        };
        times.into_iter().flatten().filter(move |time| *time > now)
    }
}
