#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value
)]

mod attaching;
mod filtering;
mod matching;
mod refusing;

use crate::HttpRoutes;
use chiton_guest::ir::gateway::{Gateway, Listener, NamespaceScope, Protocol};
use chiton_guest::ir::identity::names;
use chiton_guest::ir::route::{Route, Rule};
use chiton_guest::testing::{Run, World};
use chiton_guest::{Condition, ConditionStatus, GroupKind, ObjectRef, ParentRef, Scope};
use serde_json::{Value, json};

/// A Gateway of the namespace `default`.
fn gateway(name: &str) -> ObjectRef {
    ObjectRef::new(names::GATEWAY_GROUP, "Gateway", "default", name)
}

/// A listener that takes HTTPRoutes of every namespace.
fn listener(name: &str, port: u16, hostname: Option<&str>) -> Listener {
    Listener {
        name: name.into(),
        hostname: hostname.map(Into::into),
        port,
        protocol: Protocol::Http,
        tls: None,
        namespaces: NamespaceScope::All,
        kinds: vec![GroupKind::new(names::GATEWAY_GROUP, "HTTPRoute")],
        accepted: true,
    }
}

/// A world with the Gateway `g` that has these listeners.
fn world(listeners: Vec<Listener>) -> World {
    let document = Gateway {
        listeners,
        addresses: vec![],
    };
    World::new().output(&gateway("g"), &document)
}

/// A world with the Gateway `g`, which takes everything.
fn open() -> World {
    world(vec![listener("http", 80, None)])
}

/// Reconciles a route of the namespace `default`.
fn route(world: &World, spec: Value) -> Run {
    world.reconcile_object::<HttpRoutes>(&json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": spec,
    }))
}

/// Reconciles a route of the Gateway `g` with these rules, as YAML.
fn rules(yaml: &str) -> Run {
    let run = open().reconcile::<HttpRoutes>(&format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r, namespace: default}}
spec:
  parentRefs: [{{name: g}}]
  rules: {yaml}
"
    ));
    assert_eq!(run.failure, None);
    run
}

/// The rules of the document.
fn converted(run: &Run) -> Vec<Rule> {
    run.document::<Route>()
        .map(|route| route.rules)
        .unwrap_or_default()
}

/// The one rule of a route that has no mistake.
fn good(yaml: &str) -> Rule {
    let run = rules(&format!("[{yaml}]"));
    assert_eq!(
        said(&run, "g", "Accepted").0,
        "Accepted",
        "{yaml}: {:?}",
        run.output.conditions
    );
    let mut rules = converted(&run);
    assert_eq!(rules.len(), 1);
    rules.remove(0)
}

/// Reason and message for a route whose one rule is invalid.
fn bad(yaml: &str) -> (String, String) {
    let run = rules(&format!("[{yaml}]"));
    let condition = at(&run, "g", "Accepted").expect("a condition");
    assert_eq!(condition.status, ConditionStatus::False, "{yaml}");
    assert!(converted(&run).iter().all(|rule| rule.invalid), "{yaml}");
    (condition.reason.clone(), condition.message.clone())
}

fn at<'a>(run: &'a Run, name: &str, r#type: &str) -> Option<&'a Condition> {
    let parent = ParentRef {
        object: gateway(name),
        ..ParentRef::default()
    };
    run.condition_at(&Scope::Parent(parent), r#type)
}

/// Reason and message of a condition at a parent of the namespace `default`; empty if it is not
/// there.
fn said(run: &Run, name: &str, r#type: &str) -> (String, String) {
    at(run, name, r#type).map_or_else(Default::default, |condition| {
        (condition.reason.clone(), condition.message.clone())
    })
}
