//! What status has to say: conditions, counts, and the resources that must be acknowledged.

use super::conditions::{
    self, ACCEPTED, CONFLICTED, INVALID, OVERRIDDEN, PARTIALLY_INVALID, RESOLVED_REFS,
};
use super::dirty::Dirty;
use super::ids::{HostId, ListenerId, resource};
use super::outcomes::{Arena, Loss, Outcome};
use super::policies::Prepared;
use super::references::Source;
use super::routes::Routed;
use super::{Findings, Needed, Synchronizer, endpoints, grants, references};
use crate::pipeline::World;
use crate::store::Key;
use chiton_ir::condition::words::UNSUPPORTED_VALUE;
use chiton_ir::gateway::Gateway;
use chiton_ir::identity::names::{CHITON_GROUP, GATEWAY_GROUP};
use chiton_ir::policy::Target;
use chiton_ir::{Condition, ConditionStatus, ParentRef, Scope};
use chiton_xds::{ResourceName, ResourceType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most ancestors in the status of a policy (GEP-713).
const MAX_ANCESTORS: usize = 16;

/// Reason of the Gateway API for a policy whose target does not exist.
const TARGET_NOT_FOUND: &str = "TargetNotFound";

/// Resources by fleet, each once.
type Wanted = BTreeMap<Arc<str>, BTreeSet<ResourceName>>;

impl Synchronizer {
    /// Finds what changed in findings.
    pub(super) fn update_findings(
        &mut self,
        world: &World,
        dirty: &Dirty,
    ) -> BTreeMap<Key, Option<Arc<Findings>>> {
        let mut changed = BTreeMap::new();
        for key in &dirty.findings {
            let new = self.find(key, world).map(Arc::new);
            if self.findings.get(key) == new.as_ref() {
                continue;
            }
            match &new {
                Some(new) => self.findings.insert(key.clone(), new.clone()),
                None => self.findings.remove(key),
            };
            changed.insert(key.clone(), new);
        }
        changed
    }

    fn find(&self, key: &Key, world: &World) -> Option<Findings> {
        if let Some(gateway) = self.gateways.get(key) {
            return Some(self.find_gateway(key, gateway));
        }
        if let Some(route) = self.routes.get(key) {
            return Some(self.find_route(route));
        }
        if let Some(policy) = self.policies.get(key) {
            return Some(self.find_policy(key, policy, world));
        }
        if let Some(api) = self.apis.get(key) {
            return Some(self.find_api(key, &api.routes));
        }
        find_input(key, world)
    }

    fn find_gateway(&self, key: &Key, gateway: &Gateway) -> Findings {
        let mut findings = Findings::default();
        let mut needed = Wanted::new();
        let layout = self.layouts.get(&self.fleet_of(key));
        if let Some(conditions) = layout.and_then(|layout| layout.conditions.get(key)) {
            findings.conditions.clone_from(conditions);
        }
        for listener in &gateway.listeners {
            let id = ListenerId {
                gateway: key.clone(),
                section: listener.name.as_str().into(),
            };
            let count = self.attached.get(&id).map_or(0, BTreeSet::len);
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            findings
                .attached_routes
                .insert(listener.name.clone(), count);
            let mut section = BTreeSet::new();
            for binding in self.bindings(&id) {
                section.insert(binding.resource());
                let site = self.site(binding);
                section.extend(site.map(|site| resource(ResourceType::Listener, &site.listener)));
                let fleet = needed.entry(binding.fleet.clone()).or_default();
                fleet.extend(section.iter().cloned());
            }
            let section = section.into_iter().collect();
            findings.sections.insert(listener.name.clone(), section);
        }
        let refused = |name: &str| {
            findings.conditions.iter().any(|condition| {
                condition.r#type == ACCEPTED
                    && matches!(&condition.scope, Scope::Section(section) if section == name)
            })
        };
        let mut listeners = gateway.listeners.iter();
        if listeners.all(|it| !it.accepted || refused(&it.name))
            && gateway.listeners.iter().any(|it| it.accepted)
        {
            let message = "none of the listeners can be served: see their conditions";
            let condition = Condition::fails(ACCEPTED, "ListenersNotValid", message);
            findings.conditions.push(condition);
        }
        findings.resources = listed(needed);
        findings
    }

    fn find_route(&self, route: &Routed) -> Findings {
        let plan = &route.plan;
        let mut conditions = Vec::new();
        if let Some(first) = plan.refusals.first() {
            let message = conditions::join(plan.refusals.iter().map(|it| &it.message));
            conditions.push(Condition::fails(RESOLVED_REFS, first.reason, message));
        }
        if !plan.faults.is_empty() {
            let message = conditions::join(&plan.faults);
            let condition = conditions::warns(PARTIALLY_INVALID, UNSUPPORTED_VALUE, message);
            conditions.push(condition);
        }
        let conditions = route
            .parents
            .iter()
            .flat_map(|parent| {
                let at = |it: &Condition| it.clone().at(Scope::Parent(parent.clone()));
                conditions.iter().map(at).collect::<Vec<_>>()
            })
            .collect();
        let mut needed = Wanted::new();
        self.need_route(route, |_| true, &mut needed);
        Findings {
            conditions,
            resources: listed(needed),
            ..Findings::default()
        }
    }

    /// What a route needs in the virtual hosts that are meant.
    fn need_route(&self, route: &Routed, meant: impl Fn(&HostId) -> bool, needed: &mut Wanted) {
        for place in route.places.iter().filter(|place| meant(place)) {
            if !self.need_host(place, needed) {
                continue;
            }
            let fleet = needed.entry(place.route_config.fleet.clone()).or_default();
            let clusters = route.plan.clusters.iter().map(Source::cluster_name);
            fleet.extend(clusters.map(|name| resource(ResourceType::Cluster, name)));
        }
    }

    /// What a virtual host needs; false if proxies do not have it.
    fn need_host(&self, id: &HostId, needed: &mut Wanted) -> bool {
        let published = self.hosts.get(id).is_some_and(|host| host.published);
        if published {
            let fleet = needed.entry(id.route_config.fleet.clone()).or_default();
            fleet.insert(id.resource());
            fleet.insert(id.route_config.resource());
            let site = self.site(&id.route_config);
            fleet.extend(site.map(|site| resource(ResourceType::Listener, &site.listener)));
        }
        published
    }

    fn find_api(&self, key: &Key, routes: &BTreeSet<Key>) -> Findings {
        let mut findings = Findings::default();
        let mut needed = Wanted::new();
        let mut lost = Vec::new();
        let mut served = BTreeSet::new();
        for (arena, outcome) in self.outcomes.of(key) {
            let Arena::Host(host) = arena else {
                continue;
            };
            if outcome.served.contains(key) {
                served.insert(host);
            }
            for (_, prefix, winner) in outcome.displaced.iter().filter(|it| it.0 == *key) {
                let path = if prefix.is_empty() { "/" } else { prefix };
                lost.push(format!(
                    "{path} on host {} is served by {winner}, which comes first",
                    host.hostname
                ));
            }
        }
        for route in routes.iter().filter_map(|route| self.routes.get(route)) {
            self.need_route(route, |host| served.contains(host), &mut needed);
        }
        if !lost.is_empty() {
            let message = conditions::join(&lost);
            if served.is_empty() {
                let condition = Condition::fails(ACCEPTED, CONFLICTED, message.clone());
                findings.conditions.push(condition);
            }
            let condition = conditions::warns(CONFLICTED, "PrefixConflict", message);
            findings.conditions.push(condition);
        }
        findings.resources = listed(needed);
        findings
    }

    fn find_policy(&self, key: &Key, policy: &Prepared, world: &World) -> Findings {
        let mut findings = Findings {
            conditions: policy.conditions.clone(),
            ..Findings::default()
        };
        let mut ancestors = BTreeSet::new();
        self.find_targets(key, policy, world, &mut findings, &mut ancestors);
        let mut needed = Wanted::new();
        let mut losses = BTreeSet::new();
        let mut effective = false;
        for (arena, outcome) in self.outcomes.of(key) {
            ancestors.extend(outcome.gateway.clone());
            losses.extend(outcome.losses.iter().filter(|loss| loss.loser == *key));
            let wins: Vec<_> = outcome.wins.iter().filter(|(it, _)| it == key).collect();
            if !wins.is_empty() {
                effective = true;
                let limits = wins.iter().any(|(_, effect)| *effect == "rateLimit");
                self.need_arena(arena, outcome, limits, &mut needed);
            }
        }
        if !losses.is_empty() {
            let reason = if effective { OVERRIDDEN } else { CONFLICTED };
            let message = overridden(&losses);
            let refused = findings
                .conditions
                .iter()
                .any(|it| it.r#type == ACCEPTED && it.scope == Scope::Object);
            if !effective && !refused {
                let message = format!("the policy has no effect anywhere: {message}");
                findings
                    .conditions
                    .push(Condition::fails(ACCEPTED, CONFLICTED, message));
            }
            let condition = conditions::warns(OVERRIDDEN, reason, message);
            findings.conditions.push(condition);
        }
        findings.ancestors = ancestors
            .into_iter()
            .take(MAX_ANCESTORS)
            .map(|gateway| ParentRef {
                object: gateway.to_ref(),
                section: None,
                port: None,
            })
            .collect();
        findings.resources = listed(needed);
        findings
    }

    fn need_arena(&self, arena: &Arena, outcome: &Outcome, limits: bool, needed: &mut Wanted) {
        let route_configs = match arena {
            Arena::Host(host) => {
                self.need_host(host, needed);
                std::slice::from_ref(&host.route_config)
            }
            Arena::Wide(listener) => self.bindings(listener),
        };
        debug_assert!(outcome.gateway.is_some(), "effects hold below a Gateway");
        for id in route_configs {
            let fleet = needed.entry(id.fleet.clone()).or_default();
            fleet.insert(id.resource());
            if limits {
                fleet.insert(id.rate_limits());
            }
        }
    }

    fn find_targets(
        &self,
        key: &Key,
        policy: &Prepared,
        world: &World,
        findings: &mut Findings,
        ancestors: &mut BTreeSet<Key>,
    ) {
        let mut missing = Vec::new();
        for target in &policy.targets {
            if let Err(why) = self.find_target(key, target, world) {
                missing.push((target, why));
                continue;
            }
            let object = Key::from(&target.object);
            if self.gateways.contains_key(&object) {
                ancestors.insert(object);
            }
        }
        if !missing.is_empty() && missing.len() == policy.targets.len() {
            let message = conditions::join(missing.iter().map(|(_, why)| why));
            let condition = Condition::fails(ACCEPTED, TARGET_NOT_FOUND, message);
            findings.conditions.retain(|it| it.r#type != ACCEPTED);
            findings.conditions.push(condition);
            return;
        }
        for (target, why) in missing {
            let scope = Scope::Parent(ParentRef {
                object: target.object.clone(),
                section: target.section.clone(),
                port: None,
            });
            let condition = Condition::fails(ACCEPTED, TARGET_NOT_FOUND, why);
            findings.conditions.push(condition.at(scope));
        }
    }

    /// Whether a target is there.
    fn find_target(&self, policy: &Key, target: &Target, world: &World) -> Result<(), String> {
        let object = &target.object;
        if object.namespace != policy.namespace {
            return Err(format!("{object} is in another namespace than the policy"));
        }
        let key = Key::from(object);
        let known = object.is(GATEWAY_GROUP, "Gateway")
            || object.is(GATEWAY_GROUP, "HTTPRoute")
            || object.is(CHITON_GROUP, "API")
            || self.routes.contains_key(&key)
            || self.gateways.contains_key(&key);
        if !known {
            return Err(format!(
                "{object} is neither a Gateway, an HTTPRoute nor an API"
            ));
        }
        if world.inputs.get(object).is_none() {
            return Err(format!("{object} does not exist"));
        }
        let gateway = self.gateways.get(&key);
        if gateway.is_none() && object.is(GATEWAY_GROUP, "Gateway") {
            return Err(format!(
                "{object} is not a Gateway of this controller, or not valid"
            ));
        }
        let Some(section) = &target.section else {
            return Ok(());
        };
        let found = if let Some(gateway) = gateway {
            gateway.listeners.iter().any(|it| it.name == *section)
        } else if let Some(route) = self.routes.get(&key) {
            route.rules.has(section)
        } else {
            // A route without a document says itself what is wrong with it; an API has no sections.
            !object.is(CHITON_GROUP, "API")
        };
        if found {
            Ok(())
        } else {
            Err(format!("{object} has no section {section}"))
        }
    }
}

/// Inputs that the host reads itself, where something can be said about them.
fn find_input(key: &Key, world: &World) -> Option<Findings> {
    let object = world.inputs.get(key)?;
    let condition = if key.is(CHITON_GROUP, "Backend") {
        match references::read_backend(object) {
            Ok(_) => Condition::holds(ACCEPTED, ACCEPTED),
            Err(why) => Condition::fails(ACCEPTED, INVALID, why),
        }
    } else if key.is(GATEWAY_GROUP, "ReferenceGrant") {
        let why = grants::problem(object)?;
        Condition::fails(ACCEPTED, INVALID, format!("{why}; nothing is granted"))
    } else if endpoints::is_slice(key) {
        let why = endpoints::problem(object)?;
        Condition::fails(ACCEPTED, INVALID, format!("{why}; it has no endpoints"))
    } else {
        return None;
    };
    debug_assert_ne!(condition.status, ConditionStatus::Unknown);
    Some(Findings {
        conditions: vec![condition],
        ..Findings::default()
    })
}

fn overridden(losses: &BTreeSet<&Loss>) -> String {
    conditions::join(
        losses
            .iter()
            .map(|loss| format!("{} is replaced by that of {}", loss.effect, loss.winner)),
    )
}

fn listed(wanted: Wanted) -> Needed {
    wanted
        .into_iter()
        .map(|(fleet, names)| (fleet, names.into_iter().collect()))
        .collect()
}
