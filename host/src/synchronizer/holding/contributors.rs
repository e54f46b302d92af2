//! From a resource to the objects that put something into it, and back.

use super::flights::Place;
use super::form::is_secret;
use crate::store::Key;
use crate::synchronizer::Synchronizer;
use crate::synchronizer::followed::{Followed, Follower};
use crate::synchronizer::ids::{HostId, RATE_LIMIT, RouteConfigId, resource, secret_name};
use crate::synchronizer::outcomes::Arena;
use chiton_xds::ResourceType;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The objects behind a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contributors {
    /// Those whose words stand in it.
    pub content: BTreeSet<Key>,
    /// Those that decide that it is there and what it is called. They are to blame only where none
    /// of the others can be.
    pub frame: BTreeSet<Key>,
}

impl Synchronizer {
    /// Who put something into a resource.
    pub(super) fn contributors(&self, (fleet, name): &Place) -> Contributors {
        let mut found = Contributors::default();
        match name.kind {
            ResourceType::VirtualHost => {
                if let Some((route_config, hostname)) = name.name.rsplit_once('/') {
                    let id = route_config_id(fleet, route_config).host(hostname);
                    self.behind_host(&id, &mut found);
                }
            }
            ResourceType::RouteConfiguration => {
                self.behind_route_config(&route_config_id(fleet, &name.name), &mut found);
            }
            ResourceType::ExtensionConfig => {
                if let Some(route_config) = name.name.strip_prefix(RATE_LIMIT) {
                    self.behind_limits(&route_config_id(fleet, route_config), &mut found);
                }
            }
            ResourceType::Listener => self.behind_listener(fleet, &name.name, &mut found),
            ResourceType::Secret => {
                let followed = self.layouts.get(fleet).map(|layout| &layout.followed);
                let objects = followed.into_iter().flatten().filter_map(object);
                let named = objects.filter(|key| secret_name(key) == name.name);
                found.content.extend(named.cloned());
            }
            ResourceType::Cluster => {
                let source = self.clusters.source(&name.name);
                found.content.extend(source.map(|it| it.object().clone()));
            }
            ResourceType::Endpoints => {}
        }
        found
    }

    fn behind_host(&self, id: &HostId, found: &mut Contributors) {
        self.behind_arena(&Arena::Host(id.clone()), |_| true, found);
        let routes = self.hosts.get(id).map(|host| &host.routes);
        for key in routes.into_iter().flatten() {
            found.content.insert(key.clone());
            let route = self.routes.get(key);
            let followed = route.iter().flat_map(|route| &route.plan.followed);
            found.frame.extend(followed.filter_map(object).cloned());
        }
        let site = self.site(&id.route_config);
        let owner = site.and_then(|site| site.owner(&id.hostname));
        found.frame.extend(owner.map(|it| it.gateway.clone()));
    }

    fn behind_route_config(&self, id: &RouteConfigId, found: &mut Contributors) {
        for listener in self.site(id).into_iter().flat_map(|it| it.members.values()) {
            self.behind_arena(&Arena::Wide(listener.clone()), |_| true, found);
            found.frame.insert(listener.gateway.clone());
        }
    }

    fn behind_limits(&self, id: &RouteConfigId, found: &mut Contributors) {
        let limits = |effect: &str| effect == "rateLimit";
        for listener in self.site(id).into_iter().flat_map(|it| it.members.values()) {
            self.behind_arena(&Arena::Wide(listener.clone()), limits, found);
        }
        for host in self.hosts_of(id) {
            self.behind_arena(&Arena::Host(host.clone()), limits, found);
        }
    }

    /// The APIs and policies that hold at a place, and the Secrets of these policies.
    fn behind_arena(&self, arena: &Arena, meant: impl Fn(&str) -> bool, found: &mut Contributors) {
        let Some(outcome) = self.outcomes.at(arena) else {
            return;
        };
        found.content.extend(outcome.served.iter().cloned());
        for (policy, _) in outcome.wins.iter().filter(|(_, effect)| meant(effect)) {
            found.content.insert(policy.clone());
            let follower = Follower::Policy(policy.clone());
            let secrets = self.references.followed(&follower).filter_map(object);
            found.content.extend(secrets.cloned());
        }
    }

    fn behind_listener(&self, fleet: &Arc<str>, name: &str, found: &mut Contributors) {
        let Some(layout) = self.layouts.get(fleet) else {
            return;
        };
        let sites = layout.route_configs.values();
        for site in sites.filter(|site| site.listener == name) {
            let gateways = site.members.values().map(|it| it.gateway.clone());
            found.content.extend(gateways);
        }
        let followed = layout.followed.iter().filter_map(object);
        found.frame.extend(followed.cloned());
    }

    /// The resources that an object puts something into, as far as they are published; endpoints
    /// are not among them.
    pub(super) fn contributes_to(&self, key: &Key) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        self.add_needed(key, &mut places);
        for name in self.clusters.of_object(key) {
            let fleets = self.clusters.fleets(name).cloned();
            places.extend(fleets.map(|fleet| (fleet, resource(ResourceType::Cluster, name))));
        }
        for follower in self.references.followers(&Followed::Object(key.clone())) {
            match follower {
                Follower::Policy(policy) => self.add_needed(policy, &mut places),
                Follower::Fleet(fleet) => {
                    let name = secret_name(key);
                    let layout = self.layouts.get(fleet);
                    if layout.is_some_and(|layout| layout.secrets.contains_key(&name)) {
                        places.insert((fleet.clone(), resource(ResourceType::Secret, name)));
                    }
                }
                Follower::Route(_) => {}
            }
        }
        places
    }

    /// Whether an object puts something into any resource.
    pub(super) fn contributes(&self, key: &Key) -> bool {
        let needed = self.findings.get(key);
        needed.is_some_and(|findings| !findings.resources.is_empty())
            || self.clusters.of_object(key).next().is_some()
            || (is_secret(key) && !self.contributes_to(key).is_empty())
    }

    /// The Secrets that a policy follows.
    pub(super) fn secrets_of(&self, policy: &Key) -> impl Iterator<Item = &Key> {
        let follower = Follower::Policy(policy.clone());
        let secrets: Vec<&Followed> = self.references.followed(&follower).collect();
        secrets.into_iter().filter_map(object)
    }

    /// The policies that name an object as a target.
    pub(super) fn policies_on(&self, key: &Key) -> impl Iterator<Item = &Key> {
        self.policies.targeting(key)
    }

    fn add_needed(&self, key: &Key, places: &mut BTreeSet<Place>) {
        let resources = self.findings.get(key).map(|findings| &findings.resources);
        for (fleet, names) in resources.into_iter().flatten() {
            places.extend(names.iter().map(|name| (fleet.clone(), name.clone())));
        }
    }
}

fn route_config_id(fleet: &Arc<str>, name: &str) -> RouteConfigId {
    RouteConfigId {
        fleet: fleet.clone(),
        name: name.into(),
    }
}

fn object(followed: &Followed) -> Option<&Key> {
    match followed {
        Followed::Object(key) => Some(key),
        Followed::Grant(_) => None,
    }
}
