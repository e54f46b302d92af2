//! The objects of histories: as values that can be reasoned about, and as the JSON that hosts get.

use crate::store::{Key, Labels, Object};
use chiton_ir::identity::names::{CHITON_GROUP, CONTROLLER, DISCOVERY_GROUP, GATEWAY_GROUP};
use serde_json::{Value, json};
use std::sync::Arc;

/// Which of its module's faults an object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Fails,
    NotReady,
}

/// Which namespaces' routes a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Same,
    All,
    /// Those whose label `tier` is `a`.
    TierA,
    /// Those that have a label `tier`.
    AnyTier,
    /// Those whose label `tier` is not `b`.
    NotTierB,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub name: &'static str,
    pub port: u16,
    pub hostname: Option<&'static str>,
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub path: &'static str,
    /// Whether it is named `named`.
    pub named: bool,
    /// Namespace and name of a Service.
    pub backend: (&'static str, &'static str),
}

/// What a policy targets, by name in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Gateway(&'static str, Option<&'static str>),
    Route(&'static str, bool),
    Api(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Sets the request header `x-policy`; `@` in the value stands for the module's version.
    Header(u8),
    /// Asks for a key of this Secret.
    Keys(&'static str),
    /// Would ask for keys, but has a mistake in it.
    Mistake,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// The class of all Gateways.
    Class,
    /// With a label `tier`, if there is one.
    Namespace(Option<&'static str>),
    Gateway(Vec<Listener>),
    Route {
        /// Gateways, each with a listener or all.
        parents: Vec<(&'static str, Option<&'static str>)>,
        hostnames: Vec<&'static str>,
        rules: Vec<Rule>,
    },
    Policy {
        targets: Vec<Target>,
        is_override: bool,
        does: Does,
    },
    Api {
        base: &'static str,
        route: &'static str,
        is_default: bool,
    },
    /// With this port.
    Service(u16),
    /// Of a Service, with an address.
    Slice(&'static str, u8),
    /// For routes of a namespace to Services, or to one.
    Grant(&'static str, Option<&'static str>),
    /// With one key.
    Secret(u8),
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    pub spec: Spec,
    pub fault: Fault,
    /// The greater the younger; 0: no time stamp, which is oldest.
    pub age: u8,
}

impl From<Spec> for Thing {
    fn from(spec: Spec) -> Self {
        Self {
            spec,
            fault: Fault::None,
            age: 0,
        }
    }
}

pub fn key(kind: &str, namespace: &str, name: &str) -> Key {
    let group = match kind {
        "Gateway" | "GatewayClass" | "HTTPRoute" | "ReferenceGrant" => GATEWAY_GROUP,
        "API" | "Policy" | "Backend" => CHITON_GROUP,
        "EndpointSlice" => DISCOVERY_GROUP,
        _ => "",
    };
    Key::new(group, kind, namespace, name)
}

/// All kinds that there are.
pub const KINDS: &[&str] = &[
    "Namespace",
    "GatewayClass",
    "Gateway",
    "HTTPRoute",
    "Policy",
    "API",
    "Service",
    "EndpointSlice",
    "ReferenceGrant",
    "Secret",
    "Backend",
    "ConfigMap",
];

impl Thing {
    /// Time stamp of its making.
    pub fn created(&self) -> Option<String> {
        (self.age > 0).then(|| format!("2026-01-01T00:00:0{}Z", self.age))
    }

    /// The object.
    pub fn object(&self, key: &Key) -> Arc<Object> {
        let (fields, labels) = body(&self.spec);
        let mut metadata = json!({"name": key.name, "labels": labels});
        if !key.namespace.is_empty() {
            metadata["namespace"] = key.namespace.as_str().into();
        }
        if let Some(created) = self.created() {
            metadata["creationTimestamp"] = created.into();
        }
        match self.fault {
            Fault::None => {}
            Fault::Fails => metadata["annotations"] = json!({"fault": "fails"}),
            Fault::NotReady => metadata["annotations"] = json!({"fault": "not-ready"}),
        }
        let mut all = json!({"metadata": metadata});
        for (field, value) in fields.as_object().expect("fields") {
            all[field] = value.clone();
        }
        object(key, labels, self.created(), all)
    }
}

/// An object from its fields.
pub fn object(key: &Key, labels: Value, created: Option<String>, mut fields: Value) -> Arc<Object> {
    let version = match &*key.kind {
        "Policy" | "API" | "Backend" => "v1alpha1",
        "ReferenceGrant" => "v1beta1",
        _ => "v1",
    };
    let api_version = match &*key.group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    fields["apiVersion"] = api_version.as_str().into();
    fields["kind"] = key.kind.as_str().into();
    let labels: std::collections::BTreeMap<String, String> =
        serde_json::from_value(labels).expect("labels");
    Arc::new(Object {
        key: key.clone(),
        api_version: api_version.into(),
        labels: labels.into_iter().collect::<Labels>(),
        generation: 0,
        created,
        body: fields.to_string().into_bytes().into(),
        problem: None,
        origin: None,
    })
}

/// Fields beside metadata, and labels.
fn body(spec: &Spec) -> (Value, Value) {
    let labels = match spec {
        Spec::Namespace(Some(tier)) => json!({"tier": tier}),
        Spec::Slice(service, _) => json!({"kubernetes.io/service-name": service}),
        _ => json!({}),
    };
    let fields = match spec {
        Spec::Class => json!({"spec": {"controllerName": CONTROLLER}}),
        Spec::Namespace(_) => json!({}),
        Spec::Gateway(listeners) => json!({"spec": {
            "gatewayClassName": "chiton",
            "listeners": listeners.iter().map(listener).collect::<Vec<_>>(),
        }}),
        Spec::Route {
            parents,
            hostnames,
            rules,
        } => json!({"spec": {
            "parentRefs": parents.iter().map(parent).collect::<Vec<_>>(),
            "hostnames": hostnames,
            "rules": rules.iter().map(rule).collect::<Vec<_>>(),
        }}),
        Spec::Policy {
            targets,
            is_override,
            does,
        } => policy(targets, *is_override, *does),
        Spec::Api {
            base,
            route,
            is_default,
        } => json!({"spec": {
            "basePath": base,
            "version": "v1",
            "isDefaultVersion": is_default,
            "production": {"name": route},
        }}),
        Spec::Service(port) => json!({"spec": {"ports": [{"port": port}]}}),
        Spec::Slice(_, address) => json!({
            "addressType": "IPv4",
            "ports": [{"port": 8080}],
            "endpoints": [{"addresses": [format!("10.0.0.{address}")]}],
        }),
        Spec::Grant(from, to) => {
            let mut to_service = json!({"group": "", "kind": "Service"});
            if let Some(name) = to {
                to_service["name"] = (*name).into();
            }
            json!({"spec": {
                "from": [{"group": GATEWAY_GROUP, "kind": "HTTPRoute", "namespace": from}],
                "to": [to_service],
            }})
        }
        Spec::Secret(value) => json!({"stringData": {"client": format!("key-{value}")}}),
    };
    (fields, labels)
}

fn listener(listener: &Listener) -> Value {
    let expression = |operator: &str, values: Value| {
        let mut expression = json!({"key": "tier", "operator": operator});
        if !values.is_null() {
            expression["values"] = values;
        }
        json!({"from": "Selector", "selector": {"matchExpressions": [expression]}})
    };
    let namespaces = match listener.scope {
        Scope::Same => json!({"from": "Same"}),
        Scope::All => json!({"from": "All"}),
        Scope::TierA => json!({"from": "Selector", "selector": {"matchLabels": {"tier": "a"}}}),
        Scope::AnyTier => expression("Exists", Value::Null),
        Scope::NotTierB => expression("NotIn", json!(["b"])),
    };
    let mut all = json!({
        "name": listener.name,
        "port": listener.port,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": namespaces},
    });
    if let Some(hostname) = listener.hostname {
        all["hostname"] = hostname.into();
    }
    all
}

fn parent((gateway, section): &(&str, Option<&str>)) -> Value {
    let mut parent = json!({"name": gateway, "namespace": "default"});
    if let Some(section) = section {
        parent["sectionName"] = (*section).into();
    }
    parent
}

fn rule(rule: &Rule) -> Value {
    let (namespace, name) = rule.backend;
    let mut all = json!({
        "matches": [{"path": {"type": "PathPrefix", "value": rule.path}}],
        "backendRefs": [{"name": name, "namespace": namespace, "port": 80}],
    });
    if rule.named {
        all["name"] = "named".into();
    }
    all
}

fn policy(targets: &[Target], is_override: bool, does: Does) -> Value {
    let targets: Vec<Value> = targets
        .iter()
        .map(|target| {
            let (group, kind, name, section) = match *target {
                Target::Gateway(name, section) => (GATEWAY_GROUP, "Gateway", name, section),
                Target::Route(name, named) => {
                    (GATEWAY_GROUP, "HTTPRoute", name, named.then_some("named"))
                }
                Target::Api(name) => (CHITON_GROUP, "API", name, None),
            };
            let mut target = json!({"group": group, "kind": kind, "name": name});
            if let Some(section) = section {
                target["sectionName"] = section.into();
            }
            target
        })
        .collect();
    let (module, settings) = match does {
        Does::Header(value) => (
            "headers",
            json!({"request": {"set": [{"name": "x-policy", "value": format!("{value}-@")}]}}),
        ),
        Does::Keys(secret) => (
            "api-key",
            json!({"secretRefs": [{"name": secret}], "in": "header", "name": "x-key"}),
        ),
        Does::Mistake => ("api-key", json!({"secretRefs": [], "in": "header"})),
    };
    let strength = if is_override { "override" } else { "default" };
    json!({"spec": {"type": module, "targetRefs": targets, strength: settings}})
}
