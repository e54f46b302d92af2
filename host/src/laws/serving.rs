//! What a request shall be answered with, from the documents of the [`super::oracle`] and the objects
//! that the host follows itself.

use super::manifests::{Rule, Spec, Target, Thing, key};
use super::oracle::{Document, Effect, Oracle, covers};
use crate::store::Key;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub port: u16,
    pub host: &'static str,
    pub path: &'static str,
}

/// Its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nobody serves the host, or the path on it.
    NotFound,
    /// Answered by the proxy, after what it does with every such request.
    Status(u32, Treatment),
    /// Sent to a cluster with these endpoints.
    Forwarded(String, BTreeSet<String>, Treatment),
}

/// What is done with a request besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    pub header: Option<String>,
    /// The keys of which it needs one, if it needs one.
    pub keys: Option<BTreeSet<String>>,
}

/// Requests that tell all worlds of histories apart.
pub fn requests() -> Vec<Request> {
    let mut all = Vec::new();
    for port in [8000, 8001] {
        for host in ["a.example", "b.example", "c.test", "d.other"] {
            for path in [
                "/",
                "/a",
                "/a/b",
                "/ab",
                "/x/v1",
                "/x/v1/a/b",
                "/x/a",
                "/y/v1/a",
                "/y",
            ] {
                all.push(Request { port, host, path });
            }
        }
    }
    all
}

/// A listener that is served.
type Listener = (Key, &'static str);
/// Age: time stamp (none is the oldest), namespace, name.
type Age = (Option<String>, String, String);

/// A rule of a route at a place, perhaps behind the prefix of an API.
#[derive(Clone)]
struct Entry<'a> {
    path: String,
    route: &'a Key,
    api: Option<&'a Key>,
    prefix: String,
    index: usize,
    rule: &'a Rule,
}

/// Everything worked out that requests need.
pub struct Serving<'a> {
    oracle: &'a Oracle,
    /// By port, the hostname of each listener that is served.
    listeners: BTreeMap<u16, Vec<(&'static str, Listener)>>,
    /// By port and hostname.
    hosts: BTreeMap<(u16, String), Vec<Entry<'a>>>,
}

impl<'a> Serving<'a> {
    pub fn of(oracle: &'a Oracle) -> Self {
        let mut serving = Self {
            oracle,
            listeners: BTreeMap::new(),
            hosts: BTreeMap::new(),
        };
        serving.listen();
        serving.place();
        serving
    }

    fn age(&self, key: &Key) -> Age {
        let created = self.oracle.things.get(key).and_then(Thing::created);
        (created, key.namespace.to_string(), key.name.to_string())
    }

    /// Of two listeners with one port and hostname the older Gateway's is served.
    fn listen(&mut self) {
        let mut gateways: Vec<_> = self
            .oracle
            .documents
            .iter()
            .filter_map(|(key, document)| match document {
                Document::Gateway(listeners) => Some((key, listeners)),
                _ => None,
            })
            .collect();
        gateways.sort_by_key(|(key, _)| self.age(key));
        for (gateway, listeners) in gateways {
            for listener in listeners {
                let served = self.listeners.entry(listener.port).or_default();
                let hostname = listener.hostname.unwrap_or("*");
                if served.iter().all(|(other, _)| *other != hostname) {
                    served.push((hostname, (gateway.clone(), listener.name)));
                }
            }
        }
    }

    /// The listener that a hostname belongs to: the most specific one.
    fn owner(&self, port: u16, hostname: &str) -> Option<&Listener> {
        let all = self.listeners.get(&port)?;
        all.iter()
            .filter(|(pattern, _)| covers(pattern, hostname))
            .max_by_key(|(pattern, _)| specific(pattern))
            .map(|(_, listener)| listener)
    }

    fn place(&mut self) {
        for (route, document) in &self.oracle.documents {
            let Document::Route { at, rules } = document else {
                continue;
            };
            for (gateway, section, hostnames) in at {
                let listener = (gateway.clone(), *section);
                for port in [8000, 8001] {
                    let is_there = |(_, it): &(&str, Listener)| *it == listener;
                    if !self
                        .listeners
                        .get(&port)
                        .is_some_and(|all| all.iter().any(is_there))
                    {
                        continue;
                    }
                    for hostname in hostnames {
                        if self.owner(port, hostname) == Some(&listener) {
                            let entries = self.entries(route, rules);
                            let host = self.hosts.entry((port, hostname.clone())).or_default();
                            host.extend(entries);
                        }
                    }
                }
            }
        }
        let hosts = std::mem::take(&mut self.hosts);
        self.hosts = hosts
            .into_iter()
            .map(|(place, entries)| (place, self.sorted(entries)))
            .filter(|(_, entries)| !entries.is_empty())
            .collect();
        // A hostname that a listener has for itself within another one's is never the other's.
        for (port, all) in &self.listeners {
            for (hostname, _) in all {
                let is_within = |wide: &str| wide != *hostname && covers(wide, hostname);
                if all.iter().any(|(wide, _)| is_within(wide)) {
                    let place = (*port, (*hostname).to_owned());
                    self.hosts.entry(place).or_default();
                }
            }
        }
    }

    /// Rules of a route where it is served: as they are, or behind the prefixes of its APIs only.
    fn entries(&self, route: &'a Key, rules: &'a [Rule]) -> Vec<Entry<'a>> {
        let named_by = self.oracle.things.iter().any(|(key, thing)| {
            matches!(&thing.spec, Spec::Api { route: named, .. }
                if *route == self::key("HTTPRoute", &key.namespace, named))
        });
        let mut mounts: Vec<(Option<&Key>, &str)> = Vec::new();
        for (api, document) in &self.oracle.documents {
            if let Document::Api {
                prefixes,
                route: to,
            } = document
                && to == route
            {
                mounts.extend(prefixes.iter().map(|prefix| (Some(api), prefix.as_str())));
            }
        }
        if mounts.is_empty() && !named_by {
            mounts.push((None, ""));
        }
        let mut entries = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            for (api, prefix) in &mounts {
                entries.push(Entry {
                    path: format!("{prefix}{}", rule.path.trim_end_matches('/')),
                    route,
                    api: *api,
                    prefix: (*prefix).to_owned(),
                    index,
                    rule,
                });
            }
        }
        entries
    }

    /// Leaves each prefix to the oldest API, and sorts: the longest path, then the oldest route.
    fn sorted(&self, entries: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
        let all = entries.clone();
        let mut kept: Vec<_> = entries
            .into_iter()
            .filter(|entry| {
                entry.api.is_none_or(|api| {
                    all.iter()
                        .filter(|other| other.prefix == entry.prefix)
                        .filter_map(|other| other.api)
                        .all(|other| self.age(api) <= self.age(other))
                })
            })
            .collect();
        kept.sort_by_key(|it| (Reverse(it.path.len()), self.age(it.route), it.index));
        kept
    }

    /// What a request is answered with.
    pub fn answer(&self, request: &Request) -> Answer {
        let host = self
            .hosts
            .iter()
            .filter(|((port, name), _)| *port == request.port && covers(name, request.host))
            .max_by_key(|((_, name), _)| specific(name));
        let Some(((port, hostname), entries)) = host else {
            return Answer::NotFound;
        };
        let listener = self.owner(*port, hostname).expect("a listener");
        let entry = entries.iter().find(|entry| {
            request.path == entry.path || request.path.starts_with(&format!("{}/", entry.path))
        });
        let Some(entry) = entry else {
            let wide = self.effect(listener, None, &Effect::Closed);
            return match wide {
                Some(_) => Answer::Status(500, self.treatment(listener, None)),
                None => Answer::NotFound,
            };
        };
        let treatment = self.treatment(listener, Some(entry));
        if self
            .effect(listener, Some(entry), &Effect::Closed)
            .is_some()
        {
            return Answer::Status(500, treatment);
        }
        match self.backend(entry) {
            Some((cluster, endpoints)) => Answer::Forwarded(cluster, endpoints, treatment),
            None => Answer::Status(500, treatment),
        }
    }

    /// Clusters that some rule names.
    pub fn clusters(&self) -> BTreeSet<String> {
        let rules = self.oracle.documents.values().filter_map(|it| match it {
            Document::Route { rules, .. } => Some(rules),
            _ => None,
        });
        rules
            .flatten()
            .map(|rule| format!("service_{}_{}_80", rule.backend.0, rule.backend.1))
            .collect()
    }

    fn treatment(&self, listener: &Listener, entry: Option<&Entry<'_>>) -> Treatment {
        let header = self.effect(listener, entry, &Effect::Header(String::new()));
        let none = Effect::Keys(String::new(), String::new());
        Treatment {
            header: header.map(|effect| match effect {
                Effect::Header(value) => value,
                _ => String::new(),
            }),
            keys: self
                .effect(listener, entry, &none)
                .map(|effect| match effect {
                    Effect::Keys(namespace, name) => self.keys(&namespace, &name),
                    _ => BTreeSet::new(),
                }),
        }
    }

    fn keys(&self, namespace: &str, name: &str) -> BTreeSet<String> {
        match self.oracle.things.get(&key("Secret", namespace, name)) {
            Some(Thing {
                spec: Spec::Secret(value),
                ..
            }) => [format!("key-{value}")].into(),
            _ => BTreeSet::new(),
        }
    }

    /// The effect of a name that holds: override from above, override from below, default from
    /// below, default from above; on one level the oldest.
    fn effect(
        &self,
        listener: &Listener,
        entry: Option<&Entry<'_>>,
        name: &Effect,
    ) -> Option<Effect> {
        let (gateway, section) = listener;
        let mut levels = vec![
            (gateway, Target::Gateway(leak(&gateway.name), None)),
            (
                gateway,
                Target::Gateway(leak(&gateway.name), Some(*section)),
            ),
        ];
        if let Some(entry) = entry {
            levels.extend(entry.api.map(|api| (api, Target::Api(leak(&api.name)))));
            let route = leak(&entry.route.name);
            levels.push((entry.route, Target::Route(route, false)));
            if entry.rule.named {
                levels.push((entry.route, Target::Route(route, true)));
            }
        }
        let find = |is_wanted: bool, (object, target): &(&Key, Target)| {
            self.oracle
                .documents
                .iter()
                .filter(|(policy, _)| policy.namespace == object.namespace)
                .filter_map(|(policy, document)| match document {
                    Document::Policy {
                        targets,
                        is_override,
                        effect,
                    } if *is_override == is_wanted
                        && targets.contains(target)
                        && effect.same_name(name) =>
                    {
                        Some((self.age(policy), effect.clone()))
                    }
                    _ => None,
                })
                .min_by_key(|(age, _)| age.clone())
                .map(|(_, effect)| effect)
        };
        let mut overrides = levels.iter().filter_map(|level| find(true, level));
        let mut defaults = levels.iter().rev().filter_map(|level| find(false, level));
        overrides.next().or_else(|| defaults.next())
    }

    /// The cluster of a rule and its endpoints; none if the reference cannot be followed.
    fn backend(&self, entry: &Entry<'_>) -> Option<(String, BTreeSet<String>)> {
        let (namespace, name) = entry.rule.backend;
        let from = &entry.route.namespace;
        if from != namespace {
            let grant = self
                .oracle
                .things
                .get(&key("ReferenceGrant", namespace, "grant"))?;
            let Spec::Grant(granted, to) = &grant.spec else {
                return None;
            };
            if from != granted || to.is_some_and(|to| to != name) {
                return None;
            }
        }
        let service = self.oracle.things.get(&key("Service", namespace, name))?;
        if service.spec != Spec::Service(80) {
            return None;
        }
        let endpoints = self
            .oracle
            .things
            .iter()
            .filter(|(key, _)| key.namespace == namespace)
            .filter_map(|(_, thing)| match thing.spec {
                Spec::Slice(of, address) if of == name => Some(format!("10.0.0.{address}:8080")),
                _ => None,
            })
            .collect();
        Some((format!("service_{namespace}_{name}_80"), endpoints))
    }
}

/// The greater the more specific.
fn specific(pattern: &str) -> (bool, usize) {
    (!pattern.starts_with('*'), pattern.len())
}

/// Names in histories are few.
fn leak(name: &str) -> &'static str {
    const NAMES: [&str; 7] = ["g0", "g1", "r0", "r1", "r2", "a0", "a1"];
    NAMES.into_iter().find(|it| *it == name).expect("a name")
}
