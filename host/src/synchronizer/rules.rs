//! From the rules of a route to entries of virtual hosts, without effects.

use super::followed::Followed;
use super::grants::Grants;
use super::ids::Age;
use super::model::{Action, RouteEntry, WeightedCluster};
use super::precedence::{Position, Rank};
use super::references::{self, Refusal, Source};
use super::sorted::Sorted;
use crate::store::{Key, Snapshot};
use chiton_ir::api::SandboxHeader;
use chiton_ir::route::{Backend, Filter, Mirror, Route, Rule};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The status of requests whose rule or backend is broken, as the Gateway API asks.
const BROKEN: u16 = 500;

/// A place where a route's rules are served: as they are, or under a prefix of an API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The API.
    pub api: Option<Key>,
    /// Its prefix.
    pub prefix: String,
    /// Whether the route is the API's sandbox.
    pub sandbox: bool,
    /// The header that tells sandbox from production.
    pub header: Option<SandboxHeader>,
}

/// An entry before effects are put on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEntry {
    /// Its place in the virtual host.
    pub rank: Rank,
    /// The entry.
    pub entry: Arc<RouteEntry>,
    /// The route.
    pub route: Key,
    /// The rule's name, if it has one.
    pub rule: Option<String>,
    /// The API that it is served through.
    pub api: Option<Key>,
}

/// What a route's rules come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Entries, in no order that matters.
    pub entries: Vec<PlannedEntry>,
    /// What the clusters are made from that the entries use.
    pub clusters: Sorted<Source>,
    /// References that could not be followed, in the order of the rules.
    pub refusals: Vec<Refusal>,
    /// What is wrong with single rules.
    pub faults: Vec<String>,
    /// What was looked at.
    pub followed: Sorted<Followed>,
}

/// What is found out on the way to a plan.
#[derive(Default)]
struct Notes {
    refusals: Vec<Refusal>,
    faults: Vec<String>,
    followed: BTreeSet<Followed>,
}

/// What planning needs.
pub struct Planner<'a> {
    /// Inputs.
    pub inputs: &'a Snapshot,
    /// Grants.
    pub grants: &'a Grants,
}

/// A rule with its references followed.
struct Resolved {
    action: Action,
    filters: Vec<Filter>,
    mirrors: Vec<(String, Option<(u32, u32)>)>,
}

impl Planner<'_> {
    /// Plans a route at its mounts. References are followed, and reported, even if there are none.
    pub fn plan(&self, key: &Key, age: &Arc<Age>, route: &Route, mounts: &[Mount]) -> Plan {
        let matches: usize = route.rules.iter().map(|rule| rule.matches.len()).sum();
        let mut entries = Vec::with_capacity(matches * mounts.len());
        let mut clusters = BTreeSet::new();
        let mut notes = Notes::default();
        for (index, rule) in route.rules.iter().enumerate() {
            let mut used = BTreeSet::new();
            let resolved = self.resolve(key, index, rule, &mut used, &mut notes);
            let name = match &rule.name {
                Some(rule) => format!("{}/{}/{rule}", key.namespace, key.name),
                None => format!("{}/{}", key.namespace, key.name),
            };
            for mount in mounts {
                let before = entries.len();
                for (alternative, matches) in rule.matches.iter().enumerate() {
                    let entry = RouteEntry {
                        name: name.clone(),
                        prefix: mount.prefix.clone(),
                        environment: mount.environment(),
                        matches: matches.clone(),
                        filters: resolved.filters.clone(),
                        mirrors: resolved.mirrors.clone(),
                        action: resolved.action.clone(),
                        timeouts: rule.timeouts,
                        effects: BTreeMap::new(),
                        without: Vec::new(),
                    };
                    let position = Position {
                        rule: index,
                        alternative,
                        sandbox: mount.sandbox,
                    };
                    let required = usize::from(mount.sandbox && mount.header.is_some());
                    let rank = Rank::new(&mount.prefix, matches, required, age.clone(), position);
                    let (entry, fault) = super::checks::sound(entry);
                    notes
                        .faults
                        .extend(fault.map(|fault| format!("rule {index}: {fault}")));
                    entries.extend(entry.map(|entry| PlannedEntry {
                        rank,
                        entry: Arc::new(entry),
                        route: key.clone(),
                        rule: rule.name.clone(),
                        api: mount.api.clone(),
                    }));
                }
                if entries.len() > before {
                    clusters.append(&mut used.clone());
                }
            }
        }
        Plan {
            entries,
            clusters: clusters.into(),
            refusals: notes.refusals,
            faults: notes.faults,
            followed: notes.followed.into(),
        }
    }

    fn resolve(
        &self,
        route: &Key,
        index: usize,
        rule: &Rule,
        used: &mut BTreeSet<Source>,
        notes: &mut Notes,
    ) -> Resolved {
        let fixed = |status| Resolved {
            action: Action::Respond {
                status,
                body: String::new(),
            },
            filters: Vec::new(),
            mirrors: Vec::new(),
        };
        if rule.invalid {
            return fixed(BROKEN);
        }
        let is_redirect = |filter: &Filter| matches!(filter, Filter::Redirect(_));
        let action = if rule.filters.iter().any(is_redirect) {
            Action::Redirect
        } else {
            self.forward(route, index, &rule.backends, used, notes)
        };
        let mut mirrored = BTreeSet::new();
        let mut mirrors = self.mirrors(route, &rule.filters, &mut mirrored, notes);
        if matches!(action, Action::Forward { .. }) {
            used.append(&mut mirrored);
        } else {
            mirrors.clear(); // Only what is forwarded can be mirrored.
        }
        let mut filters = rule.filters.clone();
        filters.retain(|filter| !matches!(filter, Filter::Mirror(_)));
        Resolved {
            action,
            filters,
            mirrors,
        }
    }

    fn forward(
        &self,
        route: &Key,
        index: usize,
        backends: &[Backend],
        used: &mut BTreeSet<Source>,
        notes: &mut Notes,
    ) -> Action {
        let mut clusters = Vec::new();
        let mut broken = 0;
        for backend in backends {
            // Also references without weight are followed: status says what is wrong with them.
            let followed = references::follow(
                route,
                &backend.target,
                self.inputs,
                self.grants,
                &mut notes.followed,
            );
            let source = match followed {
                Ok(source) => source,
                Err(refusal) => {
                    notes.refusals.push(refusal);
                    broken += u64::from(backend.weight);
                    continue;
                }
            };
            if !backend.filters.iter().all(is_header_filter) {
                notes.faults.push(format!(
                    "rule {index}: a backend may only have header filters, but that of {} has \
                     another one; its share is answered with {BROKEN}",
                    backend.target.object
                ));
                broken += u64::from(backend.weight);
                continue;
            }
            if backend.weight > 0 {
                let cluster = source.cluster_name();
                used.insert(source);
                clusters.push(WeightedCluster {
                    cluster,
                    weight: backend.weight,
                    filters: backend.filters.clone(),
                });
            }
        }
        let sent: u64 = clusters.iter().map(|it| u64::from(it.weight)).sum();
        if sent + broken > u64::from(u32::MAX) {
            notes.faults.push(format!(
                "rule {index}: the weights of its backends sum to more than {}; it is answered with \
                 {BROKEN}",
                u32::MAX
            ));
            clusters.clear();
        }
        if clusters.is_empty() {
            return Action::Respond {
                status: BROKEN,
                body: String::new(),
            };
        }
        Action::Forward { clusters, broken }
    }

    fn mirrors(
        &self,
        route: &Key,
        filters: &[Filter],
        used: &mut BTreeSet<Source>,
        notes: &mut Notes,
    ) -> Vec<(String, Option<(u32, u32)>)> {
        let mut mirrors = Vec::new();
        for filter in filters {
            let Filter::Mirror(Mirror { backend, fraction }) = filter else {
                continue;
            };
            let followed = references::follow(
                route,
                backend,
                self.inputs,
                self.grants,
                &mut notes.followed,
            );
            match followed {
                Ok(source) => {
                    mirrors.push((source.cluster_name(), *fraction));
                    used.insert(source);
                }
                Err(refusal) => notes.refusals.push(refusal),
            }
        }
        mirrors
    }
}

impl Mount {
    /// The header that must be there, or must not, in [`RouteEntry::environment`]'s form.
    fn environment(&self) -> Option<(String, String, bool)> {
        let header = self.header.as_ref()?;
        Some((header.name.clone(), header.value.clone(), self.sandbox))
    }
}

/// Whether a filter only changes headers.
fn is_header_filter(filter: &Filter) -> bool {
    matches!(
        filter,
        Filter::RequestHeaders(_) | Filter::ResponseHeaders(_)
    )
}
