//! Assembling one virtual host from the routes that are placed in it.

use super::dirty::Dirty;
use super::effects::{self, CORS, RESPOND, Winners};
use super::gateways::{placed, rate_limits};
use super::ids::{Age, HostId, ListenerId};
use super::listeners::Site;
use super::model::{Action, Effects, RouteEntry, VirtualHost};
use super::outcomes::{Arena, Outcome};
use super::rules::PlannedEntry;
use super::{Synchronizer, envoy};
use crate::store::Key;
use chiton_ir::policy::RateLimit;
use chiton_ir::route::{Match, Timeouts};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Answer to a request that came over a connection which was made for another host (RFC 9110,
/// 15.5.20): clients that share connections between hosts open a new one then.
const MISDIRECTED: u16 = 421;

/// A virtual host.
#[derive(Debug, Default)]
pub struct Host {
    /// Routes that are placed in it.
    pub routes: BTreeSet<Key>,
    /// Whether proxies have it.
    pub published: bool,
    /// Names of the effects that its routes have of their own, whether they hold or not, or copied:
    /// a wide change of these reaches it.
    pub own: BTreeSet<&'static str>,
    /// Rate limits in it, by bucket.
    limits: BTreeMap<String, RateLimit>,
}

/// A virtual host, assembled.
struct Assembled {
    host: VirtualHost,
    own: BTreeSet<&'static str>,
    limits: BTreeMap<String, RateLimit>,
    outcome: Outcome,
}

/// Who competes for effects: an API, a route and a rule of it.
type Bearer<'a> = (Option<&'a Key>, &'a Key, Option<&'a str>);

impl Synchronizer {
    /// Assembles virtual hosts.
    pub(super) fn update_hosts(&mut self, dirty: &mut Dirty) {
        for id in std::mem::take(&mut dirty.hosts) {
            let assembled = self.assemble(&id);
            let exists = assembled.is_some();
            let mut host = self.hosts.remove(&id).unwrap_or_default();
            if host.published != exists {
                dirty.findings.extend(host.routes.iter().cloned());
            }
            host.published = exists;
            host.own.clear();
            let mut outcome = None;
            let mut limits = BTreeMap::new();
            let fleet = &id.route_config.fleet;
            if let Some(assembled) = assembled {
                self.published
                    .put(fleet, envoy::virtual_host(&assembled.host));
                host.own = assembled.own;
                limits = assembled.limits;
                outcome = Some(assembled.outcome);
            } else {
                self.published.remove(fleet, id.resource());
            }
            let old = std::mem::replace(&mut host.limits, limits.clone());
            if host.own.is_empty() {
                self.own_effects.remove(&id);
            } else {
                self.own_effects.insert(id.clone());
            }
            self.set_limits(&id.route_config, Some(&id), &old, limits, dirty);
            let touched = self.outcomes.set(&Arena::Host(id.clone()), outcome);
            dirty.findings.extend(touched);
            if exists || !host.routes.is_empty() {
                self.hosts.insert(id, host);
            }
        }
    }

    fn assemble(&self, id: &HostId) -> Option<Assembled> {
        let site = self.site(&id.route_config)?;
        let Some(owner) = site.owner(&id.hostname) else {
            let foreign = site.foreign.contains(&*id.hostname);
            return foreign.then(|| misdirected(id, site));
        };
        let entries = self.entries(id);
        if entries.is_empty() && !site.reserved.contains(&*id.hostname) {
            return None;
        }
        let mut outcome = Outcome::at(&owner.gateway);
        let entries = self.resolve_prefixes(entries, &mut outcome);
        Some(self.finish(id, site, owner, &entries, outcome))
    }

    fn entries(&self, id: &HostId) -> Vec<&PlannedEntry> {
        let routes = self.hosts.get(id).map(|host| &host.routes);
        routes
            .into_iter()
            .flatten()
            .filter_map(|key| self.routes.get(key))
            .flat_map(|route| &route.plan.entries)
            .collect()
    }

    /// Leaves each prefix to the oldest API that wants it.
    fn resolve_prefixes<'a>(
        &self,
        entries: Vec<&'a PlannedEntry>,
        outcome: &mut Outcome,
    ) -> Vec<&'a PlannedEntry> {
        let mut winners: BTreeMap<&str, Age> = BTreeMap::new();
        for entry in &entries {
            let Some(api) = entry.api.as_ref().and_then(|api| self.apis.get(api)) else {
                continue;
            };
            winners
                .entry(&entry.entry.prefix)
                .and_modify(|winner| {
                    if api.age < *winner {
                        *winner = api.age.clone();
                    }
                })
                .or_insert_with(|| api.age.clone());
        }
        let mut kept = entries;
        kept.retain(|entry| {
            let Some(api) = &entry.api else {
                return true;
            };
            let winner = winners.get(entry.entry.prefix.as_str()).map(Age::key);
            if winner == Some(api) {
                outcome.served.insert(api.clone());
                return true;
            }
            if let Some(winner) = winner {
                let prefix = entry.entry.prefix.clone();
                let lost = (api.clone(), prefix, winner.clone());
                outcome.displaced.insert(lost);
            }
            false
        });
        kept
    }

    fn finish(
        &self,
        id: &HostId,
        site: &Site,
        owner: &ListenerId,
        entries: &[&PlannedEntry],
        mut outcome: Outcome,
    ) -> Assembled {
        let none = Winners::new();
        let wide = self.wide_of(owner).unwrap_or(&none);
        let settled = self.route_configs.get(&id.route_config);
        let on_route_config = settled.is_none_or(|settled| settled.uniform);
        let mut effects = placed(Some(wide));
        if on_route_config {
            effects.retain(|name, _| *name == RESPOND);
        }
        for winner in wide.values() {
            if effects.contains_key(winner.name()) {
                outcome.wins(winner);
            }
        }
        let mut limits = rate_limits(&effects);
        let mut own_names = BTreeSet::new();
        // Entries of one bearer stand together.
        let mut last: Option<(Bearer<'_>, Winners)> = None;
        let mut ranked = Vec::with_capacity(entries.len());
        for planned in entries {
            let bearer = (
                planned.api.as_ref(),
                &planned.route,
                planned.rule.as_deref(),
            );
            let (_, own) = if let Some(known) = last.take().filter(|(known, _)| *known == bearer) {
                last.insert(known)
            } else {
                let mut here = Outcome::default();
                let (api, route, rule) = bearer;
                let own = effects::own(&self.policies, api, route, rule, &mut here);
                own_names.extend(own.keys().copied());
                let own = effects::against(own, wide, &mut here);
                outcome.absorb(here);
                last.insert((bearer, own))
            };
            let mut effects = placed(Some(own));
            if envoy::misses_preflights(&planned.entry) {
                own_names.insert(CORS);
                if let Some(cors) = wide.get(CORS) {
                    let mine = effects.entry(CORS);
                    mine.or_insert_with(|| cors.placed.clone());
                }
            }
            limits.extend(rate_limits(&effects));
            ranked.push((*planned, effects));
        }
        ranked
            .sort_by(|(a, _), (b, _)| (&a.rank, &a.entry.prefix).cmp(&(&b.rank, &b.entry.prefix)));
        let routes = ranked.into_iter();
        let routes = routes.map(|(planned, effects)| with(&planned.entry, effects));
        Assembled {
            host: VirtualHost {
                effects,
                routes: routes.collect(),
                ..empty(id, site)
            },
            own: own_names,
            limits,
            outcome,
        }
    }
}

/// An entry with its effects; most have none.
fn with(entry: &Arc<RouteEntry>, effects: Effects) -> Arc<RouteEntry> {
    if effects.is_empty() {
        return entry.clone();
    }
    Arc::new(RouteEntry {
        effects,
        ..RouteEntry::clone(entry)
    })
}

fn empty(id: &HostId, site: &Site) -> VirtualHost {
    VirtualHost {
        route_config: id.route_config.name.to_string(),
        hostname: id.hostname.to_string(),
        listener_port: site.port,
        tls: site.tls,
        effects: Effects::new(),
        routes: Vec::new(),
    }
}

/// What a host gets that has a connection of its own.
fn misdirected(id: &HostId, site: &Site) -> Assembled {
    let entry = RouteEntry {
        name: "misdirected".into(),
        prefix: String::new(),
        environment: None,
        matches: Match::default(),
        filters: Vec::new(),
        mirrors: Vec::new(),
        action: Action::Respond {
            status: MISDIRECTED,
            body: String::new(),
        },
        timeouts: Timeouts::default(),
        effects: Effects::new(),
        without: Vec::new(),
    };
    Assembled {
        host: VirtualHost {
            routes: vec![Arc::new(entry)],
            ..empty(id, site)
        },
        own: BTreeSet::new(),
        limits: BTreeMap::new(),
        outcome: Outcome::default(),
    }
}

#[cfg(test)]
impl Synchronizer {
    /// A virtual host of the default fleet as it is assembled now.
    pub(super) fn assembled(&self, route_config: &str, hostname: &str) -> Option<VirtualHost> {
        let route_config = super::ids::RouteConfigId {
            fleet: super::DEFAULT_FLEET.into(),
            name: route_config.into(),
        };
        Some(self.assemble(&route_config.host(hostname))?.host)
    }
}
