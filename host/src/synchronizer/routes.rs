//! Routes: what they ask for, where it is served, and which clusters that needs.

use super::Synchronizer;
use super::clusters::Uses;
use super::dirty::Dirty;
use super::followed::{self, Follower};
use super::hostnames;
use super::ids::{Age, HostId, ListenerId};
use super::rules::{Plan, Planner};
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
    pub rules: BTreeSet<String>,
    /// What its rules come to.
    pub plan: Plan,
    /// Virtual hosts that hold its entries.
    pub places: BTreeSet<HostId>,
    /// Listeners that accepted it.
    pub listeners: BTreeSet<ListenerId>,
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
                .and_then(|result| result.documents.route.clone());
            let new = document.map(|route| self.route(&key, &route, world));
            let old = self.routes.remove(&key);
            if old != new {
                let none = Routed::default();
                let before = old.as_ref().unwrap_or(&none);
                let after = new.as_ref().unwrap_or(&none);
                self.mark_route(&key, before, after, dirty);
            }
            if let Some(new) = new {
                self.routes.insert(key, new);
            }
        }
    }

    fn route(&self, key: &Key, route: &Route, world: &World) -> Routed {
        let mut routed = Routed {
            parents: route.parents.iter().map(|it| it.parent.clone()).collect(),
            rules: route
                .rules
                .iter()
                .filter_map(|it| it.name.clone())
                .collect(),
            ..Routed::default()
        };
        let age = Arc::new(Age::of(key, world.inputs.get(key)));
        let planner = Planner {
            inputs: &world.inputs,
            grants: &self.grants,
        };
        routed.plan = planner.plan(key, &age, route, &self.apis.mounts(key));
        for parent in &route.parents {
            let gateway = Key::from(&parent.parent.object);
            for listener in &parent.listeners {
                let id = ListenerId {
                    gateway: gateway.clone(),
                    section: listener.name.as_str().into(),
                };
                self.place(&id, &listener.hostnames, &mut routed);
                routed.listeners.insert(id);
            }
        }
        if routed.plan.entries.is_empty() {
            routed.places.clear();
        }
        routed
    }

    /// The virtual hosts of the hostnames that belong to the listener.
    fn place(&self, listener: &ListenerId, names: &[String], routed: &mut Routed) {
        for name in names {
            if !hostnames::is_valid(name) {
                let fault = format!("{name:?} is not a hostname and is not served");
                routed.plan.faults.push(fault);
                continue;
            }
            for id in self.bindings(listener) {
                let owner = self.site(id).and_then(|site| site.owner(name));
                if owner == Some(listener) {
                    routed.places.insert(id.host(name));
                }
            }
        }
    }

    fn mark_route(&mut self, key: &Key, old: &Routed, new: &Routed, dirty: &mut Dirty) {
        self.references
            .set(&Follower::Route(key.clone()), new.plan.followed.clone());
        if old.plan.entries == new.plan.entries {
            let moved = old.places.symmetric_difference(&new.places);
            dirty.hosts.extend(moved.cloned());
        } else {
            dirty.hosts.extend(old.places.union(&new.places).cloned());
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
        let mut uses = Uses::new();
        for place in &new.places {
            let fleet = &place.route_config.fleet;
            for (name, source) in &new.plan.clusters {
                uses.insert((fleet.clone(), name.clone()), source.clone());
            }
        }
        dirty.clusters.extend(self.clusters.set(key, uses));
        dirty.findings.insert(key.clone());
        dirty.findings.extend(self.apis.naming(key).cloned());
    }
}
