//! Gateways: listeners, route configurations and the effects on them.

use super::dirty::Dirty;
use super::effects::{self, RESPOND, Winners};
use super::followed::Follower;
use super::ids::{Age, HostId, INERT_DOMAIN, ListenerId, RouteConfigId, resource};
use super::listeners::{Layout, Layouter, Site, Tenant};
use super::model::{self, Effects};
use super::outcomes::{Arena, Outcome};
use super::policies::Preparer;
use super::{Synchronizer, envoy};
use crate::pipeline::World;
use crate::store::Key;
use chiton_ir::policy::{RateLimit, Target};
use chiton_xds::ResourceType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Effects on a route configuration.
#[derive(Debug, Default)]
pub struct Settled {
    /// Whether all its listeners have the same effects, which are then on the route configuration;
    /// else they are on its virtual hosts.
    pub uniform: bool,
    /// The effects on it.
    pub effects: Effects,
    /// Rate limits by bucket, of itself and of its virtual hosts (`Some`).
    limits: BTreeMap<String, BTreeMap<Option<HostId>, RateLimit>>,
}

impl Synchronizer {
    /// Prepares policies and marks what their effects reach.
    pub(super) fn update_policies(&mut self, world: &World, dirty: &mut Dirty) {
        for key in std::mem::take(&mut dirty.policies) {
            let document = world
                .outputs
                .get(&key)
                .and_then(|result| result.documents.policy.clone());
            let preparer = Preparer {
                inputs: &world.inputs,
                grants: &self.grants,
            };
            let (policy, followed) = document
                .map(|policy| preparer.prepare(&key, &policy))
                .unzip();
            self.references.set(
                &Follower::Policy(key.clone()),
                followed.unwrap_or_default().into(),
            );
            for target in self.policies.set(&key, policy) {
                self.mark_target(&target, dirty);
            }
            dirty.findings.insert(key);
        }
    }

    fn mark_target(&self, target: &Target, dirty: &mut Dirty) {
        let object = Key::from(&target.object);
        dirty.listeners.extend(self.listeners_of(&object));
        let routes = self.apis.get(&object).map(|api| &api.routes);
        for route in routes.into_iter().flatten().chain([&object]) {
            if let Some(routed) = self.routes.get(route) {
                dirty.hosts.extend(routed.places.iter().cloned());
            }
        }
    }

    fn listeners_of(&self, gateway: &Key) -> Vec<ListenerId> {
        let listeners = self.gateways.get(gateway).map(|it| it.listeners.iter());
        listeners
            .into_iter()
            .flatten()
            .map(|listener| ListenerId {
                gateway: gateway.clone(),
                section: listener.name.as_str().into(),
            })
            .collect()
    }

    /// Lays out the fleets of changed Gateways again.
    pub(super) fn update_gateways(&mut self, world: &World, dirty: &mut Dirty) {
        for key in std::mem::take(&mut dirty.gateways) {
            dirty.listeners.extend(self.listeners_of(&key));
            let document = world
                .outputs
                .get(&key)
                .and_then(|result| result.documents.gateway.clone());
            match document {
                Some(document) => self.gateways.insert(key.clone(), document),
                None => self.gateways.remove(&key),
            };
            dirty.listeners.extend(self.listeners_of(&key));
            dirty.fleets.insert(self.fleet_of(&key));
            dirty.findings.insert(key);
        }
        for fleet in std::mem::take(&mut dirty.fleets) {
            let new = self.lay_out(&fleet, world);
            self.references
                .set(&Follower::Fleet(fleet.clone()), new.followed.clone().into());
            let old = self.layouts.remove(&fleet).unwrap_or_default();
            self.publish_layout(&fleet, &old, &new);
            self.mark_sites(&old, &new, dirty);
            let conditions = old.conditions.keys().chain(new.conditions.keys());
            dirty.findings.extend(conditions.cloned());
            if !new.listeners.is_empty() || !new.conditions.is_empty() {
                self.layouts.insert(fleet, new);
            }
        }
    }

    fn lay_out(&mut self, fleet: &Arc<str>, world: &World) -> Layout {
        let tenants: Vec<_> = self
            .gateways
            .iter()
            .filter(|(key, _)| self.fleet_of(key) == *fleet)
            .map(|(key, gateway)| Tenant {
                age: Age::of(key, world.inputs.get(key)),
                gateway,
            })
            .collect();
        let mut layouter = Layouter {
            fleet: fleet.clone(),
            options: &self.options,
            inputs: &world.inputs,
            grants: &self.grants,
            certificates: &mut self.certificates,
        };
        layouter.lay_out(tenants)
    }

    fn publish_layout(&mut self, fleet: &Arc<str>, old: &Layout, new: &Layout) {
        for name in old
            .listeners
            .keys()
            .filter(|it| !new.listeners.contains_key(*it))
        {
            let name = resource(ResourceType::Listener, name);
            self.published.remove(fleet, name);
        }
        for (name, listener) in &new.listeners {
            if old.listeners.get(name) != Some(listener) {
                self.published.put(fleet, envoy::listener(listener));
            }
        }
        for name in old
            .secrets
            .keys()
            .filter(|it| !new.secrets.contains_key(*it))
        {
            self.published
                .remove(fleet, resource(ResourceType::Secret, name));
        }
        for (name, secret) in &new.secrets {
            if old.secrets.get(name) != Some(secret) {
                self.published.put(fleet, envoy::tls_secret(secret));
            }
        }
    }

    /// Marks what hangs on route configurations that came, went or changed.
    fn mark_sites(&self, old: &Layout, new: &Layout, dirty: &mut Dirty) {
        let ids: BTreeSet<_> = old
            .route_configs
            .keys()
            .chain(new.route_configs.keys())
            .collect();
        for id in ids {
            let sites = [old.route_configs.get(id), new.route_configs.get(id)];
            if sites[0] == sites[1] {
                continue;
            }
            dirty.route_configs.insert(id.clone());
            dirty.hosts.extend(self.hosts_of(id).cloned());
            for site in sites.into_iter().flatten() {
                self.mark_site(id, site, dirty);
            }
        }
    }

    fn mark_site(&self, id: &RouteConfigId, site: &Site, dirty: &mut Dirty) {
        let own = site.reserved.iter().chain(&site.foreign);
        dirty.hosts.extend(own.map(|name| id.host(name)));
        for listener in site.members.values() {
            dirty.listeners.insert(listener.clone());
            dirty.findings.insert(listener.gateway.clone());
            let attached = self.attached.get(listener).into_iter().flatten();
            dirty.routes.extend(attached.cloned());
        }
    }

    /// The virtual hosts of a route configuration.
    pub(super) fn hosts_of<'a>(
        &'a self,
        id: &'a RouteConfigId,
    ) -> impl Iterator<Item = &'a HostId> {
        self.hosts
            .range(id.host("")..)
            .map(|(host, _)| host)
            .take_while(move |host| host.route_config == *id)
    }

    /// Settles the effects on whole listeners, and where they go.
    pub(super) fn update_wide(&mut self, dirty: &mut Dirty) {
        for listener in std::mem::take(&mut dirty.listeners) {
            self.settle_listener(&listener, dirty);
        }
        for id in std::mem::take(&mut dirty.route_configs) {
            if self.site(&id).is_some() {
                self.settle_route_config(&id, dirty);
            } else if self.route_configs.remove(&id).is_some() {
                let fleet = &id.fleet;
                self.published.remove(fleet, id.resource());
                self.published.remove(fleet, id.rate_limits());
                self.published
                    .remove(fleet, id.host(INERT_DOMAIN).resource());
            }
        }
    }

    fn settle_listener(&mut self, listener: &ListenerId, dirty: &mut Dirty) {
        let bindings = self.bindings(listener).to_vec();
        let served = !bindings.is_empty();
        let mut outcome = Outcome::at(&listener.gateway);
        let new = if served {
            effects::wide(&self.policies, listener, &mut outcome)
        } else {
            Winners::new()
        };
        for winner in new.values() {
            outcome.wins(winner);
        }
        let arena = Arena::Wide(listener.clone());
        let touched = self.outcomes.set(&arena, served.then_some(outcome));
        dirty.findings.extend(touched);
        let old = self.wide.remove(listener).unwrap_or_default();
        let changed: BTreeSet<_> = old
            .keys()
            .chain(new.keys())
            .filter(|name| old.get(*name) != new.get(*name))
            .copied()
            .collect();
        if !new.is_empty() {
            self.wide.insert(listener.clone(), new);
        }
        if !changed.is_empty() {
            for id in bindings {
                dirty.wide.entry(id.clone()).or_default().extend(&changed);
                dirty.route_configs.insert(id);
            }
        }
    }

    /// Effects that hold on a whole listener.
    pub(super) fn wide_of(&self, listener: &ListenerId) -> Option<&Winners> {
        self.wide.get(listener)
    }

    fn settle_route_config(&mut self, id: &RouteConfigId, dirty: &mut Dirty) {
        let Some(site) = self.site(id) else {
            return;
        };
        let mut all = site.members.values().map(|it| {
            let mut effects = placed(self.wide_of(it));
            effects.remove(RESPOND);
            effects
        });
        let first = all.next().unwrap_or_default();
        let uniform = all.all(|other| other == first);
        let effects = if uniform { first } else { Effects::new() };
        let is_new = !self.route_configs.contains_key(id);
        let settled = self.route_configs.entry(id.clone()).or_default();
        let moved = !is_new && settled.uniform != uniform;
        settled.uniform = uniform;
        if is_new || settled.effects != effects {
            let old = std::mem::replace(&mut settled.effects, effects.clone());
            let limits = rate_limits(&effects);
            self.set_limits(id, None, &rate_limits(&old), limits, dirty);
            let route_config = model::RouteConfig {
                name: id.name.to_string(),
                effects,
            };
            let fleet = &id.fleet;
            self.published
                .put(fleet, envoy::route_config(&route_config));
            self.published
                .put(fleet, envoy::inert_virtual_host(&id.name));
            dirty.limits.insert(id.clone());
        }
        let changed = dirty.wide.remove(id).unwrap_or_default();
        let everywhere = moved || (!changed.is_empty() && (!uniform || changed.contains(RESPOND)));
        if everywhere {
            dirty.hosts.extend(self.hosts_of(id).cloned());
        } else if !changed.is_empty() {
            let own = self
                .own_effects
                .range(id.host("")..)
                .take_while(|host| host.route_config == *id)
                .filter(|host| self.has_own(host, &changed));
            dirty.hosts.extend(own.cloned());
        }
    }

    fn has_own(&self, host: &HostId, names: &BTreeSet<&'static str>) -> bool {
        self.hosts
            .get(host)
            .is_some_and(|host| !host.own.is_disjoint(names))
    }

    /// Replaces the rate limits of a route configuration, or of a virtual host in it.
    pub(super) fn set_limits(
        &mut self,
        id: &RouteConfigId,
        host: Option<&HostId>,
        old: &BTreeMap<String, RateLimit>,
        new: BTreeMap<String, RateLimit>,
        dirty: &mut Dirty,
    ) {
        let Some(settled) = self.route_configs.get_mut(id) else {
            return;
        };
        let user = host.cloned();
        for bucket in old.keys().filter(|bucket| !new.contains_key(*bucket)) {
            let Some(users) = settled.limits.get_mut(bucket) else {
                continue;
            };
            users.remove(&user);
            if users.is_empty() {
                settled.limits.remove(bucket);
            }
            dirty.limits.insert(id.clone());
        }
        for (bucket, limit) in new {
            let users = settled.limits.entry(bucket).or_default();
            if users.insert(user.clone(), limit) != Some(limit) {
                dirty.limits.insert(id.clone());
            }
        }
    }

    /// Sends the buckets of route configurations. They are always there, also if there are none.
    pub(super) fn update_rate_limits(&mut self, dirty: &Dirty) {
        for id in &dirty.limits {
            let Some(settled) = self.route_configs.get(id) else {
                continue;
            };
            let buckets = settled
                .limits
                .iter()
                .filter_map(|(bucket, users)| Some((bucket.clone(), *users.values().next()?)))
                .collect();
            let limits = model::RateLimits {
                name: id.rate_limits().name,
                buckets,
                wide: settled.effects.get("rateLimit").map(|it| it.bucket.clone()),
            };
            self.published.put(&id.fleet, envoy::rate_limits(&limits));
        }
    }
}

/// Winners as they are placed.
pub fn placed(winners: Option<&Winners>) -> Effects {
    winners
        .into_iter()
        .flatten()
        .map(|(name, attached)| (*name, attached.placed.clone()))
        .collect()
}

/// The rate limits among effects, by bucket.
pub fn rate_limits(effects: &Effects) -> BTreeMap<String, RateLimit> {
    effects
        .values()
        .filter_map(|placed| match &*placed.effect {
            chiton_ir::policy::Effect::RateLimit(limit) => Some((placed.bucket.clone(), *limit)),
            _ => None,
        })
        .collect()
}
