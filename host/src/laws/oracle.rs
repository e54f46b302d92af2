//! What each object comes to, worked out from the objects alone: the Gateway API's rules and those
//! of `docs/policies.md`, as plainly as they can be written, with no index and no code of the host.

use super::manifests::{Does, Fault, Listener, Rule, Scope, Spec, Target, Thing, key};
use super::spy::Version;
use crate::store::Key;
use std::collections::BTreeMap;

/// An effect by what it does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The value of the header.
    Header(String),
    /// Namespace and name of the Secret with the keys.
    Keys(String, String),
    /// Answered with 500.
    Closed,
}

impl Effect {
    /// Effects of one name compete.
    pub fn same_name(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What a reconciler makes of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    Gateway(Vec<Listener>),
    Route {
        /// Listeners of Gateways, with the hostnames that both mean.
        at: Vec<(Key, &'static str, Vec<String>)>,
        rules: Vec<Rule>,
    },
    Policy {
        targets: Vec<Target>,
        is_override: bool,
        effect: Effect,
    },
    Api {
        prefixes: Vec<String>,
        route: Key,
    },
}

/// Documents by object.
pub type Documents = BTreeMap<Key, Document>;

/// What was there before, and what has come of it.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub things: BTreeMap<Key, Thing>,
    pub versions: BTreeMap<&'static str, Version>,
    /// The last good result of each object, with the module that gave it.
    last_good: BTreeMap<Key, (&'static str, Option<Document>)>,
    /// What holds after the last epoch.
    pub documents: Documents,
}

/// The module that an object belongs to.
pub fn module(spec: &Spec) -> Option<&'static str> {
    match spec {
        Spec::Class | Spec::Gateway(_) => Some("gateway"),
        Spec::Route { .. } => Some("route"),
        Spec::Api { .. } => Some("api"),
        Spec::Policy {
            does: Does::Header(_),
            ..
        } => Some("headers"),
        Spec::Policy { .. } => Some("api-key"),
        _ => None,
    }
}

impl Oracle {
    /// Works out everything again, layer by layer. The only thing that is remembered is the last
    /// good result of each object.
    pub fn epoch(&mut self) {
        let things = self.things.clone();
        self.last_good.retain(|key, _| things.contains_key(key));
        self.documents.clear();
        for layer in [&["gateway", "headers", "api-key"][..], &["route"], &["api"]] {
            let mut new = Documents::new();
            for (key, thing) in &things {
                let Some(module) = module(&thing.spec).filter(|it| layer.contains(it)) else {
                    continue;
                };
                let document = self.document(key, thing, module);
                new.extend(document.map(|document| (key.clone(), document)));
            }
            self.documents.append(&mut new);
        }
    }

    fn document(&mut self, key: &Key, thing: &Thing, module: &'static str) -> Option<Document> {
        let is_mistaken = matches!(
            thing.spec,
            Spec::Policy {
                does: Does::Mistake,
                ..
            }
        );
        // What is invalid is the author's fault, and the module is not asked.
        if is_mistaken || self.fault(key, thing) == Fault::None {
            let document = self.compute(key, &thing.spec);
            self.last_good
                .insert(key.clone(), (module, document.clone()));
            return document;
        }
        match self.last_good.get(key) {
            Some((of, document)) if *of == module => document.clone(),
            _ if module == "api-key" => closed(&thing.spec),
            _ => None,
        }
    }

    fn fault(&self, key: &Key, thing: &Thing) -> Fault {
        let module = module(&thing.spec).expect("a module");
        self.versions[module].fault(key, thing.fault)
    }

    fn compute(&self, key: &Key, spec: &Spec) -> Option<Document> {
        match spec {
            Spec::Gateway(listeners) => Some(Document::Gateway(listeners.clone())),
            Spec::Route {
                parents,
                hostnames,
                rules,
            } => Some(self.route(key, parents, hostnames, rules)),
            Spec::Policy {
                targets,
                is_override,
                does,
            } => {
                let effect = match does {
                    Does::Header(value) => {
                        Effect::Header(format!("{value}-{}", self.versions["headers"].number))
                    }
                    Does::Keys(secret) => {
                        Effect::Keys(key.namespace.to_string(), (*secret).to_owned())
                    }
                    Does::Mistake => return closed(spec),
                };
                Some(Document::Policy {
                    targets: targets.clone(),
                    is_override: *is_override,
                    effect,
                })
            }
            Spec::Api {
                base,
                route,
                is_default,
            } => {
                let (versioned, bare) = match base.strip_suffix("/v1") {
                    Some(bare) => ((*base).to_owned(), bare.to_owned()),
                    None => (format!("{base}/v1"), (*base).to_owned()),
                };
                let bare = is_default.then_some(bare);
                Some(Document::Api {
                    prefixes: [versioned].into_iter().chain(bare).collect(),
                    route: self::key("HTTPRoute", &key.namespace, route),
                })
            }
            _ => None,
        }
    }

    fn route(
        &self,
        route: &Key,
        parents: &[(&'static str, Option<&'static str>)],
        hostnames: &[&'static str],
        rules: &[Rule],
    ) -> Document {
        let mut at = Vec::new();
        for (gateway, section) in parents {
            let gateway = key("Gateway", "default", gateway);
            let Some(Document::Gateway(listeners)) = self.documents.get(&gateway) else {
                continue;
            };
            for listener in listeners {
                let is_named = section.is_none_or(|section| section == listener.name);
                if is_named && self.takes(listener.scope, &route.namespace) {
                    let names = meant_by_both(listener.hostname, hostnames);
                    if !names.is_empty() {
                        at.push((gateway.clone(), listener.name, names));
                    }
                }
            }
        }
        Document::Route {
            at,
            rules: rules.to_vec(),
        }
    }

    fn takes(&self, scope: Scope, namespace: &str) -> bool {
        let tier = match self.things.get(&key("Namespace", "", namespace)) {
            Some(Thing {
                spec: Spec::Namespace(tier),
                ..
            }) => *tier,
            _ => None,
        };
        match scope {
            Scope::All => true,
            Scope::Same => namespace == "default",
            Scope::TierA => tier == Some("a"),
            Scope::AnyTier => tier.is_some(),
            Scope::NotTierB => tier != Some("b"),
        }
    }
}

fn closed(spec: &Spec) -> Option<Document> {
    let Spec::Policy { targets, .. } = spec else {
        return None;
    };
    Some(Document::Policy {
        targets: targets.clone(),
        is_override: true,
        effect: Effect::Closed,
    })
}

/// Whether a pattern (`*`, `*.example`, `a.example`) takes a name or all that a pattern takes.
pub fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => name == pattern || (name.ends_with(suffix) && name.len() > suffix.len()),
        None => name == pattern,
    }
}

/// Hostnames that a listener and a route mean both.
fn meant_by_both(listener: Option<&str>, route: &[&'static str]) -> Vec<String> {
    let listener = listener.unwrap_or("*");
    if route.is_empty() {
        return vec![listener.to_owned()];
    }
    let mut names: Vec<String> = route
        .iter()
        .filter_map(|name| {
            if covers(listener, name) {
                Some((*name).to_owned())
            } else {
                covers(name, listener).then(|| listener.to_owned())
            }
        })
        .collect();
    names.sort();
    names.dedup();
    names
}
