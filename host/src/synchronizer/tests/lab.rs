//! A laboratory: a world made by hand, the synchronizer that follows it, and what a proxy would
//! have after all that it sent. Every step also checks that a synchronizer that starts from nothing
//! comes to the same.

use super::make::{named, object};
use crate::pipeline::channel::{Batch, Event};
use crate::pipeline::{Documents, Outputs, Reconciled, World};
use crate::store::{Change as StoreChange, Key, Store};
use crate::synchronizer::{Delta, Findings, Options, Synchronizer, everything};
use chiton_ir::api::Api;
use chiton_ir::gateway::{Gateway, Listener};
use chiton_ir::policy::Policy;
use chiton_ir::route::Route;
use chiton_ir::{ConditionStatus, Scope, documents};
use chiton_xds::{Change, Resource, ResourceName, ResourceType};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const GATEWAY: &str = "gateway.networking.k8s.io";
pub const CHITON: &str = "chiton.dev";

/// Resources by fleet and name.
pub type Proxies = BTreeMap<String, BTreeMap<ResourceName, Resource>>;

pub struct Lab {
    pub options: Options,
    store: Store,
    outputs: Outputs,
    events: BTreeMap<Key, Event>,
    synchronizer: Synchronizer,
    pub proxies: Proxies,
    pub findings: BTreeMap<Key, Arc<Findings>>,
}

pub fn options() -> Options {
    Options {
        bind_address: None,
        low_port_offset: 0,
        access_log: false,
        fleet_per_gateway: false,
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new(options())
    }
}

impl Lab {
    pub fn new(options: Options) -> Self {
        Self {
            synchronizer: Synchronizer::new(options.clone()),
            options,
            store: Store::new(),
            outputs: Outputs::default(),
            events: BTreeMap::new(),
            proxies: Proxies::new(),
            findings: BTreeMap::new(),
        }
    }

    /// Puts an input object.
    pub fn input(&mut self, body: &Value) -> Key {
        let object = object(body);
        let key = object.key.clone();
        self.store.commit(&[StoreChange::Put(Arc::new(object))]);
        self.events.insert(key.clone(), Event::Update);
        key
    }

    /// Deletes an object and its outputs.
    pub fn delete(&mut self, key: &Key) {
        self.store.commit(&[StoreChange::Delete(key.clone())]);
        self.outputs.set(key.clone(), None);
        self.events.insert(key.clone(), Event::Delete);
    }

    /// Sets documents of an object that is there.
    pub fn output(&mut self, key: &Key, documents: Documents) {
        let result = Reconciled {
            documents,
            ..Reconciled::default()
        };
        self.outputs.set(key.clone(), Some(Arc::new(result)));
        self.events.insert(key.clone(), Event::Update);
    }

    pub fn gateway(&mut self, name: &str, listeners: Vec<Listener>) -> Key {
        let key = self.input(&named("gateway.networking.k8s.io/v1", "Gateway", name));
        let gateway = Some(Arc::new(Gateway {
            listeners,
            addresses: Vec::new(),
        }));
        self.output(
            &key,
            Documents {
                gateway,
                ..Documents::default()
            },
        );
        key
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "tests write the route in the call, as they do with everything else"
    )]
    pub fn route(&mut self, name: &str, route: Route) -> Key {
        let key = self.input(&named("gateway.networking.k8s.io/v1", "HTTPRoute", name));
        let json = serde_json::to_vec(&route).unwrap();
        self.output(
            &key,
            Documents {
                json: vec![(documents::ROUTE.to_owned(), json.into())],
                ..Documents::default()
            },
        );
        key
    }

    pub fn policy(&mut self, name: &str, policy: Policy) -> Key {
        let key = self.input(&named("chiton.dev/v1alpha1", "Policy", name));
        let policy = Some(Arc::new(policy));
        self.output(
            &key,
            Documents {
                policy,
                ..Documents::default()
            },
        );
        key
    }

    /// An API; without a document it is an invalid one.
    pub fn api(&mut self, name: &str, production: &str, document: Option<Api>) -> Key {
        let mut body = named("chiton.dev/v1alpha1", "API", name);
        body["spec"] = json!({"production": {"name": production}});
        let key = self.input(&body);
        let api = document.map(Arc::new);
        self.output(
            &key,
            Documents {
                api,
                ..Documents::default()
            },
        );
        key
    }

    /// A Service with port 80 and one ready endpoint.
    pub fn service(&mut self, name: &str) -> Key {
        let mut body = named("v1", "Service", name);
        body["spec"] = json!({"ports": [{"name": "http", "port": 80}]});
        self.slice(name, "10.0.0.1", true);
        self.input(&body)
    }

    pub fn slice(&mut self, service: &str, address: &str, ready: bool) -> Key {
        let mut body = named("discovery.k8s.io/v1", "EndpointSlice", service);
        body["metadata"]["labels"] = json!({"kubernetes.io/service-name": service});
        body["addressType"] = "IPv4".into();
        body["ports"] = json!([{"name": "http", "port": 8080}]);
        body["endpoints"] = json!([{"addresses": [address], "conditions": {"ready": ready}}]);
        self.input(&body)
    }

    /// Names the module that an object's documents are of.
    pub fn of_module(&mut self, key: &Key, module: &str) {
        let result = self.outputs.get(key).expect("an output");
        let result = Reconciled {
            module: module.to_owned(),
            ..Reconciled::clone(result)
        };
        self.outputs.set(key.clone(), Some(Arc::new(result)));
    }

    /// The next batch holds everything, as for a host that starts.
    pub fn forget_batches(&mut self) {
        self.events = everything(self.world()).events;
    }

    /// What was put since the last batch.
    pub fn batch(&mut self) -> Batch {
        Batch {
            events: std::mem::take(&mut self.events),
            world: self.world(),
        }
    }

    fn world(&self) -> World {
        World {
            epoch: 1,
            inputs: self.store.snapshot(),
            outputs: self.outputs.clone(),
            ..World::default()
        }
    }

    /// Applies what was put since the last step, and checks it against a fresh start.
    pub fn step(&mut self) -> Delta {
        let batch = self.batch();
        let delta = self.synchronizer.apply(&batch);
        absorb(&mut self.proxies, &delta);
        for (key, findings) in &delta.findings {
            match findings {
                Some(findings) => self.findings.insert(key.clone(), findings.clone()),
                None => self.findings.remove(key),
            };
        }
        self.compare();
        delta
    }

    fn compare(&self) {
        let mut fresh = Synchronizer::new(self.options.clone());
        let delta = fresh.apply(&everything(self.world()));
        let mut proxies = Proxies::new();
        absorb(&mut proxies, &delta);
        assert_eq!(names(&self.proxies), names(&proxies));
        assert!(
            self.proxies == proxies,
            "contents differ from a fresh start"
        );
        let findings: BTreeMap<_, _> = delta
            .findings
            .into_iter()
            .filter_map(|(key, findings)| Some((key, findings?)))
            .collect();
        assert_eq!(self.findings, findings);
        self.check_needed();
    }

    /// What an object waits for must be there, or it would wait for ever.
    fn check_needed(&self) {
        for (key, findings) in &self.findings {
            for (fleet, needed) in &findings.resources {
                for name in needed {
                    let there = self
                        .proxies
                        .get(&**fleet)
                        .is_some_and(|it| it.contains_key(name));
                    assert!(there, "{key} waits for {name:?}, which is not there");
                }
            }
        }
    }

    /// The resource in the default fleet.
    pub fn resource(&self, kind: ResourceType, name: &str) -> Option<&Resource> {
        let name = ResourceName {
            kind,
            name: name.to_owned(),
        };
        self.proxies.get("default")?.get(&name)
    }

    /// Names of the resources of a type in the default fleet.
    pub fn names(&self, kind: ResourceType) -> Vec<&str> {
        let all = self.proxies.get("default");
        all.into_iter()
            .flat_map(BTreeMap::keys)
            .filter(|name| name.kind == kind && !name.name.ends_with("/chiton.invalid"))
            .map(|name| name.name.as_str())
            .collect()
    }

    /// The virtual host, assembled; it must be there.
    pub fn host(
        &self,
        route_config: &str,
        hostname: &str,
    ) -> crate::synchronizer::model::VirtualHost {
        self.synchronizer
            .assembled(route_config, hostname)
            .expect("a virtual host")
    }

    /// The condition of an object's findings, as `status reason`.
    pub fn condition(&self, key: &Key, scope: &Scope, r#type: &str) -> Option<String> {
        let conditions = &self.findings.get(key)?.conditions;
        let found = conditions
            .iter()
            .find(|it| it.scope == *scope && it.r#type == r#type)?;
        let status = match found.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        Some(format!("{status} {}", found.reason))
    }
}

pub fn absorb(proxies: &mut Proxies, delta: &Delta) {
    for (fleet, changes) in &delta.resources {
        let resources = proxies.entry(fleet.clone()).or_default();
        for change in changes {
            match change {
                Change::Put(resource) => {
                    resources.insert(resource.name.clone(), resource.clone());
                }
                Change::Remove(name) => {
                    assert!(resources.remove(name).is_some(), "{name:?} was not there");
                }
            }
        }
        if resources.is_empty() {
            proxies.remove(fleet);
        }
    }
}

fn names(proxies: &Proxies) -> BTreeMap<&String, Vec<(&ResourceName, &String)>> {
    proxies
        .iter()
        .map(|(fleet, all)| {
            (
                fleet,
                all.iter().map(|(name, it)| (name, &it.version)).collect(),
            )
        })
        .collect()
}

/// Changed resources of a delta in the default fleet, as `type name`, removals with a minus.
pub fn changed(delta: &Delta) -> Vec<String> {
    let changes = delta.resources.get("default");
    changes
        .into_iter()
        .flatten()
        .map(|change| match change {
            Change::Put(resource) => format!("{:?} {}", resource.name.kind, resource.name.name),
            Change::Remove(name) => format!("-{:?} {}", name.kind, name.name),
        })
        .collect()
}
