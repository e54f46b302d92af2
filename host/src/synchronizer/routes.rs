//! Routes: what they ask for, where it is served, and which clusters that needs.

use super::Synchronizer;
use super::clusters::Uses;
use super::dirty::Dirty;
use super::followed::{self, Follower};
use super::hostnames;
use super::ids::{Age, HostId, ListenerId};
use super::rules::{Plan, Planner};
use super::sorted::Sorted;
use crate::pipeline::World;
use crate::store::Key;
use chiton_ir::ParentRef;
use chiton_ir::route::Route;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A route, planned and placed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Its parents, as it names them.
    pub parents: Vec<ParentRef>,
    /// Names of its rules.
    pub rules: Sorted<String>,
    /// What its rules come to.
    pub plan: Plan,
    /// Virtual hosts that hold its entries.
    pub places: Sorted<HostId>,
    /// Listeners that accepted it.
    pub listeners: Sorted<ListenerId>,
}

impl Routed {
    /// Clusters that it uses, in the fleets where it is served.
    fn uses(&self) -> Uses {
        let fleets = self.places.iter().map(|place| &place.route_config.fleet);
        fleets
            .collect::<BTreeSet<_>>()
            .into_iter()
            .flat_map(|fleet| {
                let sources = self.plan.clusters.iter();
                sources.map(|source| ((fleet.clone(), source.cluster_name()), source.clone()))
            })
            .collect()
    }
}

impl Synchronizer {
    /// Reads changed APIs and marks the routes that they name.
    pub(super) fn update_apis(&mut self, world: &World, dirty: &mut Dirty) {
        for key in std::mem::take(&mut dirty.apis) {
            for route in self.apis.update(&key, world) {
                // The API's age may have changed alone, which decides who gets a prefix.
                if let Some(routed) = self.routes.get(&route) {
                    dirty.hosts.extend(routed.places.iter().cloned());
                }
                dirty.routes.insert(route);
            }
            dirty.findings.insert(key);
        }
    }

    /// Plans routes and marks the virtual hosts that are different then.
    pub(super) fn update_routes(&mut self, world: &World, dirty: &mut Dirty) {
        for key in std::mem::take(&mut dirty.routes) {
            let document = world
                .outputs
                .get(&key)
                .and_then(|result| result.documents.route());
            let new = document.map(|route| Box::new(self.route(&key, &route, world)));
            let old = self.routes.remove(&key);
            if old != new {
                let none = Routed::default();
                let before = old.as_deref().unwrap_or(&none);
                let after = new.as_deref().unwrap_or(&none);
                self.mark_route(&key, before, after, dirty);
            }
            if let Some(new) = new {
                self.routes.insert(key, new);
            }
        }
    }

    fn route(&self, key: &Key, route: &Route, world: &World) -> Routed {
        let names = route.rules.iter().filter_map(|it| it.name.clone());
        let mut routed = Routed {
            parents: route.parents.iter().map(|it| it.parent.clone()).collect(),
            rules: names.collect::<BTreeSet<_>>().into(),
            ..Routed::default()
        };
        let age = Arc::new(Age::of(key, world.inputs.get(key)));
        let planner = Planner {
            inputs: &world.inputs,
            grants: &self.grants,
        };
        let mounts = self.apis.mounts(key);
        routed.plan = planner.plan(key, &age, route, &mounts);
        if mounts.is_empty() {
            let apis: Vec<String> = self.apis.naming(key).map(ToString::to_string).collect();
            routed.plan.faults.push(format!(
                "it is served through APIs only, and is not served: {} cannot be used",
                apis.join(" and ")
            ));
        }
        let mut places = BTreeSet::new();
        let mut listeners = BTreeSet::new();
        for parent in &route.parents {
            let gateway = world.inputs.key(&parent.parent.object);
            for listener in &parent.listeners {
                let id = ListenerId {
                    gateway: gateway.clone(),
                    section: listener.name.as_str().into(),
                };
                let faults = &mut routed.plan.faults;
                places.extend(self.places(&id, &listener.hostnames, faults));
                listeners.insert(id);
            }
        }
        if routed.plan.entries.is_empty() {
            places.clear();
        }
        routed.places = places.into();
        routed.listeners = listeners.into();
        routed
    }

    /// The virtual hosts of the hostnames that belong to the listener.
    fn places(
        &self,
        listener: &ListenerId,
        names: &[String],
        faults: &mut Vec<String>,
    ) -> Vec<HostId> {
        let mut places = Vec::new();
        for name in names {
            if !hostnames::is_valid(name) {
                faults.push(format!("{name:?} is not a hostname and is not served"));
                continue;
            }
            for id in self.bindings(listener) {
                let owner = self.site(id).and_then(|site| site.owner(name));
                if owner == Some(listener) {
                    places.push(id.host(name));
                }
            }
        }
        places
    }

    fn mark_route(&mut self, key: &Key, old: &Routed, new: &Routed, dirty: &mut Dirty) {
        self.references
            .set(&Follower::Route(key.clone()), new.plan.followed.clone());
        if old.plan.entries == new.plan.entries {
            dirty
                .hosts
                .extend(old.places.difference(&new.places).cloned());
            dirty
                .hosts
                .extend(new.places.difference(&old.places).cloned());
        } else {
            dirty.hosts.extend(old.places.iter().cloned());
            dirty.hosts.extend(new.places.iter().cloned());
        }
        for host in old.places.difference(&new.places) {
            if let Some(host) = self.hosts.get_mut(host) {
                host.routes.remove(key);
            }
        }
        for host in new.places.difference(&old.places) {
            let host = self.hosts.entry(host.clone()).or_default();
            host.routes.insert(key.clone());
        }
        for listener in old.listeners.difference(&new.listeners) {
            followed::remove(&mut self.attached, listener, key);
            dirty.findings.insert(listener.gateway.clone());
        }
        for listener in new.listeners.difference(&old.listeners) {
            let attached = self.attached.entry(listener.clone()).or_default();
            attached.insert(key.clone());
            dirty.findings.insert(listener.gateway.clone());
        }
        let touched = self.clusters.set(key, &old.uses(), &new.uses());
        dirty.clusters.extend(touched);
        dirty.findings.insert(key.clone());
        dirty.findings.extend(self.apis.naming(key).cloned());
    }
}
