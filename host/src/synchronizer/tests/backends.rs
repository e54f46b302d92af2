//! References to backends, clusters and endpoints.

use super::lab::*;
use super::make::*;
use crate::synchronizer::model::Action;
use chiton_ir::route::{BackendTarget, Rule};
use chiton_ir::{ObjectRef, Scope};
use chiton_xds::ResourceType;
use serde_json::json;

fn lab() -> Lab {
    let mut lab = Lab::default();
    lab.gateway("gw", vec![http("web", 80, None)]);
    lab
}

fn resolved(lab: &Lab, key: &crate::store::Key) -> Option<String> {
    lab.condition(key, &Scope::Parent(parent("gw")), "ResolvedRefs")
}

fn parents() -> Vec<chiton_ir::route::RouteParent> {
    vec![at("gw", "web", &["a.example"])]
}

#[test]
fn endpoints_change_without_routes() {
    let mut lab = lab();
    lab.service("s");
    lab.service("unused");
    lab.route("r", route(parents(), vec![rule("/", "s")]));
    lab.step();
    lab.slice("s", "127.0.0.2", true);
    let delta = lab.step();
    assert_eq!(changed(&delta), ["Endpoints service_default_s_80"]);
    lab.slice("unused", "127.0.0.2", true);
    assert!(changed(&lab.step()).is_empty());
    lab.slice("s", "127.0.0.2", false);
    assert_eq!(changed(&lab.step()), ["Endpoints service_default_s_80"]);
    let slice = crate::store::Key::new("discovery.k8s.io", "EndpointSlice", "default", "s");
    lab.delete(&slice);
    assert!(
        changed(&lab.step()).is_empty(),
        "there was no ready endpoint before either"
    );
}

#[test]
fn a_backend_that_is_missing_breaks_its_share() {
    let mut lab = lab();
    lab.service("s");
    let both = Rule {
        backends: vec![backend("s", 3), backend("gone", 1)],
        ..rule("/", "s")
    };
    let key = lab.route("r", route(parents(), vec![both, rule("/gone", "gone")]));
    lab.step();
    let host = lab.host("http-80", "a.example");
    assert!(matches!(
        host.routes[0].action,
        Action::Respond { status: 500, .. }
    ));
    assert!(
        matches!(&host.routes[1].action, Action::Forward { clusters, broken: 1 }
        if clusters.len() == 1)
    );
    assert_eq!(
        resolved(&lab, &key).as_deref(),
        Some("False BackendNotFound")
    );
    lab.service("gone");
    let delta = lab.step();
    assert_eq!(
        changed(&delta),
        [
            "Cluster service_default_gone_80",
            "Endpoints service_default_gone_80",
            "VirtualHost http-80/a.example"
        ]
    );
    assert_eq!(resolved(&lab, &key), None);
}

#[test]
fn another_namespace_needs_a_grant() {
    let mut lab = lab();
    let mut service = named("v1", "Service", "s");
    service["metadata"]["namespace"] = "other".into();
    service["spec"] = json!({"ports": [{"port": 80}]});
    lab.input(&service);
    let key = lab.route("r", route(parents(), vec![rule("/", "other/s")]));
    lab.step();
    assert_eq!(
        resolved(&lab, &key).as_deref(),
        Some("False RefNotPermitted")
    );
    let mut grant = named("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", "g");
    grant["metadata"]["namespace"] = "other".into();
    grant["spec"] = json!({
        "from": [{"group": GATEWAY, "kind": "HTTPRoute", "namespace": "default"}],
        "to": [{"group": "", "kind": "Service", "name": "s"}],
    });
    let grant_key = lab.input(&grant);
    lab.step();
    assert_eq!(resolved(&lab, &key), None);
    assert_eq!(lab.names(ResourceType::Cluster), ["service_other_s_80"]);
    grant["spec"]["to"][0]["nmae"] = "s".into();
    lab.input(&grant);
    lab.step();
    assert_eq!(
        resolved(&lab, &key).as_deref(),
        Some("False RefNotPermitted")
    );
    assert_eq!(
        lab.condition(&grant_key, &Scope::Object, "Accepted")
            .as_deref(),
        Some("False Invalid")
    );
    lab.delete(&grant_key);
    assert!(changed(&lab.step()).is_empty());
}

#[test]
fn reasons_are_those_of_the_gateway_api() {
    let mut lab = lab();
    let mut service = named("v1", "Service", "s");
    let mut check = |spec: serde_json::Value, reason: Option<&str>| {
        service["spec"] = spec;
        lab.input(&service);
        let key = lab.route("r", route(parents(), vec![rule("/", "s")]));
        lab.step();
        assert_eq!(resolved(&lab, &key).as_deref(), reason, "{service}");
    };
    check(json!({"ports": [{"port": 80}]}), None);
    check(
        json!({"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]}),
        None,
    );
    check(
        json!({"ports": [{"port": 80, "appProtocol": "example.org/odd"}]}),
        Some("False UnsupportedProtocol"),
    );
    check(
        json!({"ports": [{"port": 80, "protocol": "UDP"}]}),
        Some("False UnsupportedProtocol"),
    );
    check(
        json!({"ports": [{"port": 81}]}),
        Some("False BackendNotFound"),
    );
    check(json!({"ports": "x"}), Some("False BackendNotFound"));
    check(
        json!({"type": "ExternalName", "ports": [{"port": 80}]}),
        Some("False InvalidKind"),
    );
}

#[test]
fn a_service_that_changes_its_protocol_changes_its_cluster_only() {
    let mut lab = lab();
    let mut service = named("v1", "Service", "s");
    service["spec"] = json!({"ports": [{"port": 80}]});
    lab.input(&service);
    lab.route("r", route(parents(), vec![rule("/", "s")]));
    lab.step();
    service["spec"]["ports"][0]["appProtocol"] = "kubernetes.io/h2c".into();
    lab.input(&service);
    // The endpoint set goes along: a changed cluster waits for it.
    assert_eq!(
        changed(&lab.step()),
        [
            "Cluster service_default_s_80",
            "Endpoints service_default_s_80"
        ]
    );
}

#[test]
fn backends_have_addresses_or_names() {
    let mut lab = lab();
    let to_backend = |kind: &str| {
        let mut rule = rule("/", "s");
        rule.backends[0].target = BackendTarget {
            object: ObjectRef::new(CHITON, kind, "default", "b"),
            port: None,
        };
        route(parents(), vec![rule])
    };
    let mut backend = named("chiton.dev/v1alpha1", "Backend", "b");
    backend["spec"] = json!({"endpoints": [{"host": "10.0.0.1", "port": 80}]});
    let backend_key = lab.input(&backend);
    let key = lab.route("r", to_backend("Backend"));
    lab.step();
    assert_eq!(lab.names(ResourceType::Cluster), ["backend_default_b"]);
    assert!(lab.names(ResourceType::Endpoints).is_empty());
    backend["spec"]["endpoints"] = json!([{"host": "a.example", "port": 80}]);
    lab.input(&backend);
    assert_eq!(changed(&lab.step()), ["Cluster backend_default_b"]);
    backend["spec"]["endpoints"] =
        json!([{"host": "a.example", "port": 80}, {"host": "10.0.0.1", "port": 80}]);
    lab.input(&backend);
    lab.step();
    assert_eq!(
        resolved(&lab, &key).as_deref(),
        Some("False BackendNotFound")
    );
    assert_eq!(
        lab.condition(&backend_key, &Scope::Object, "Accepted")
            .as_deref(),
        Some("False Invalid")
    );
    lab.route("r", to_backend("Widget"));
    lab.step();
    assert_eq!(resolved(&lab, &key).as_deref(), Some("False InvalidKind"));
}
