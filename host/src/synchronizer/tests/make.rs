//! Small documents for the laboratory.

use super::lab::GATEWAY;
use crate::store::{Key, Object};
use chiton_ir::gateway::{Listener, ListenerTls, NamespaceScope, Protocol};
use chiton_ir::policy::{Effect, Policy, Respond, Target};
use chiton_ir::route::{
    Backend, BackendTarget, Header, HeaderChange, Match, PathMatch, Route, RouteListener,
    RouteParent, Rule,
};
use chiton_ir::{ObjectRef, ParentRef};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub fn named(api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
    })
}

pub fn object(body: &Value) -> Object {
    let text = |pointer: &str| {
        body.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let api_version = text("/apiVersion");
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let labels = body
        .pointer("/metadata/labels")
        .cloned()
        .unwrap_or(json!({}));
    Object {
        key: Key::new(
            group,
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name"),
        ),
        api_version: api_version.into(),
        labels: serde_json::from_value::<BTreeMap<String, String>>(labels)
            .expect("labels")
            .into_iter()
            .collect(),
        generation: 0,
        created: body
            .pointer("/metadata/creationTimestamp")
            .and_then(Value::as_str)
            .map(str::to_owned),
        body: body.to_string().into_bytes().into(),
        problem: None,
        origin: None,
    }
}

pub fn http(name: &str, port: u16, hostname: Option<&str>) -> Listener {
    Listener {
        name: name.to_owned(),
        hostname: hostname.map(str::to_owned),
        port,
        protocol: Protocol::Http,
        tls: None,
        namespaces: NamespaceScope::All,
        kinds: Vec::new(),
        accepted: true,
    }
}

pub fn https(name: &str, port: u16, hostname: Option<&str>, secrets: &[&str]) -> Listener {
    let certificates = secrets
        .iter()
        .map(|secret| {
            let (namespace, name) = secret.split_once('/').unwrap_or(("default", secret));
            ObjectRef::new("", "Secret", namespace, name)
        })
        .collect();
    Listener {
        protocol: Protocol::Https,
        tls: Some(ListenerTls { certificates }),
        ..http(name, port, hostname)
    }
}

pub fn parent(gateway: &str) -> ParentRef {
    ParentRef {
        object: ObjectRef::new(GATEWAY, "Gateway", "default", gateway),
        section: None,
        port: None,
    }
}

/// A parent and the hostnames at a listener of it.
pub fn at(gateway: &str, listener: &str, hostnames: &[&str]) -> RouteParent {
    RouteParent {
        parent: parent(gateway),
        listeners: vec![RouteListener {
            name: listener.to_owned(),
            hostnames: hostnames.iter().map(|it| (*it).to_owned()).collect(),
        }],
    }
}

pub fn backend(service: &str, weight: u32) -> Backend {
    let (namespace, name) = service.split_once('/').unwrap_or(("default", service));
    Backend {
        target: BackendTarget {
            object: ObjectRef::new("", "Service", namespace, name),
            port: Some(80),
        },
        weight,
        filters: Vec::new(),
    }
}

/// A rule for a path prefix with one backend.
pub fn rule(prefix: &str, service: &str) -> Rule {
    Rule {
        matches: vec![Match {
            path: PathMatch::Prefix(prefix.to_owned()),
            ..Match::default()
        }],
        backends: vec![backend(service, 1)],
        ..Rule::default()
    }
}

pub fn route(parents: Vec<RouteParent>, rules: Vec<Rule>) -> Route {
    Route { parents, rules }
}

pub fn target(group: &str, kind: &str, name: &str, section: Option<&str>) -> Target {
    Target {
        object: ObjectRef::new(group, kind, "default", name),
        section: section.map(str::to_owned),
    }
}

pub fn headers(value: &str) -> Effect {
    Effect::RequestHeaders(HeaderChange {
        set: vec![Header {
            name: "x-policy".into(),
            value: value.to_owned(),
        }],
        ..HeaderChange::default()
    })
}

pub fn respond(status: u16) -> Effect {
    Effect::Respond(Respond {
        status,
        body: String::new(),
    })
}

pub fn defaults(target: Target, effects: Vec<Effect>) -> Policy {
    Policy {
        targets: vec![target],
        default: effects,
        r#override: Vec::new(),
    }
}

pub fn overrides(target: Target, effects: Vec<Effect>) -> Policy {
    Policy {
        targets: vec![target],
        default: Vec::new(),
        r#override: effects,
    }
}
