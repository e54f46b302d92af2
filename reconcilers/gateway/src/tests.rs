#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::Gateways;
use chiton_guest::ir::gateway::{Gateway, LabelOperator, Listener, NamespaceScope, Protocol};
use chiton_guest::testing::{Run, World};
use chiton_guest::{ConditionStatus, ObjectRef, Scope};

const OURS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: chiton}
spec: {controllerName: chiton.dev/gateway-controller}
";

fn class(spec: &str) -> Run {
    World::new().reconcile::<Gateways>(&format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {{name: c}}, spec: {spec}}}"
    ))
}

/// Reconciles a Gateway of our class with these lines of spec.
fn gateway(spec: &str) -> Run {
    in_world(
        &World::new().yaml(OURS),
        &format!("{{gatewayClassName: chiton, {spec}}}"),
    )
}

fn in_world(world: &World, spec: &str) -> Run {
    let run = world.reconcile::<Gateways>(&format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g, namespace: default}}, spec: {spec}}}"
    ));
    assert_eq!(run.failure, None);
    run
}

fn listeners(run: &Run) -> Vec<Listener> {
    run.document::<Gateway>().expect("a document").listeners
}

/// `True Reason` of a listener's condition.
fn at(run: &Run, listener: &str, r#type: &str) -> String {
    run.condition_at(&Scope::Section(listener.into()), r#type)
        .map_or_else(String::new, |found| {
            format!("{:?} {}", found.status, found.reason)
        })
}

fn whole(run: &Run) -> String {
    run.condition("Accepted").map_or_else(String::new, |found| {
        format!("{:?} {}", found.status, found.reason)
    })
}

#[test]
fn classes() {
    for (spec, expected) in [
        (
            "{controllerName: chiton.dev/gateway-controller}",
            "Accepted",
        ),
        (
            "{controllerName: chiton.dev/gateway-controller, description: x}",
            "Accepted",
        ),
        ("{controllerName: other.io/controller, x: y}", ""),
        (
            "{controllerName: chiton.dev/gateway-controller, parametersRef: {group: '', kind: ConfigMap, name: a, namespace: b}}",
            "InvalidParameters",
        ),
        (
            "{controllerName: chiton.dev/gateway-controller, descripton: x}",
            "UnsupportedValue",
        ),
        ("{controllerName: 1}", "Invalid"),
    ] {
        let run = class(spec);
        assert_eq!(run.reason("Accepted"), expected, "{spec}");
        assert!(run.output.documents.is_empty());
    }
}

#[test]
fn gateways_of_others_are_left_alone() {
    let theirs = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: chiton}
spec: {controllerName: other.io/controller}
";
    for world in [World::new(), World::new().yaml(theirs)] {
        for spec in [
            "{gatewayClassName: chiton, listeners: []}",
            "{gatewayClassName: chiton, typo: 1}",
        ] {
            let run = in_world(&world, spec);
            assert!(run.output.conditions.is_empty() && run.output.documents.is_empty());
        }
    }
}

#[test]
fn a_gateway_of_a_class_that_is_refused_is_refused() {
    let world = World::new().yaml(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: chiton}, spec: {controllerName: chiton.dev/gateway-controller, parametersRef: {group: a, kind: b, name: c}}}",
    );
    let run = in_world(
        &world,
        "{gatewayClassName: chiton, listeners: [{name: a, port: 80, protocol: HTTP}]}",
    );
    assert_eq!(whole(&run), "False InvalidParameters");
    assert!(listeners(&run).is_empty());
}

#[test]
fn a_plain_listener() {
    let run =
        gateway("listeners: [{name: http, port: 80, protocol: HTTP, hostname: '*.example.com'}]");
    assert_eq!(whole(&run), "True Accepted");
    assert_eq!(at(&run, "http", "Accepted"), "True Accepted");
    assert_eq!(at(&run, "http", "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(at(&run, "http", "Conflicted"), "False NoConflicts");
    let found = listeners(&run).remove(0);
    assert!(found.accepted);
    assert_eq!(found.hostname.as_deref(), Some("*.example.com"));
    assert_eq!((found.port, found.protocol), (80, Protocol::Http));
    assert_eq!(found.namespaces, NamespaceScope::Same);
    assert_eq!(found.kinds.len(), 1);
    assert_eq!(found.tls, None);
}

#[test]
fn a_tls_listener() {
    let run = gateway(
        "listeners: [{name: https, port: 443, protocol: HTTPS, hostname: '', tls: {mode: Terminate, certificateRefs: [{name: a}, {name: a}, {name: b, namespace: other}]}}]",
    );
    assert_eq!(at(&run, "https", "Accepted"), "True Accepted");
    let found = listeners(&run).remove(0);
    assert_eq!(found.hostname, None);
    let secret = |namespace: &str, name: &str| ObjectRef::new("", "Secret", namespace, name);
    assert_eq!(
        found.tls.expect("TLS").certificates,
        [secret("default", "a"), secret("other", "b")]
    );
}

#[test]
fn listeners_that_are_not_valid() {
    let certificate = "certificateRefs: [{name: a}]";
    for (listener, accepted, resolved) in [
        (
            "port: 80, protocol: TCP",
            "False UnsupportedProtocol",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: http",
            "False UnsupportedProtocol",
            "True ResolvedRefs",
        ),
        (
            "port: 443, protocol: TLS, tls: {mode: Passthrough}",
            "False UnsupportedProtocol",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, hostname: 10.0.0.1",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, hostname: 'a_b'",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, hostname: 'a.*.com'",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, tls: {certificateRefs: [{name: a}]}",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            &format!("port: 443, protocol: HTTPS, tls: {{mode: Passthrough, {certificate}}}"),
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            &format!("port: 443, protocol: HTTPS, tls: {{{certificate}, options: {{a: b}}}}"),
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 443, protocol: HTTPS",
            "False UnsupportedValue",
            "False InvalidCertificateRef",
        ),
        (
            "port: 443, protocol: HTTPS, tls: {certificateRefs: []}",
            "False UnsupportedValue",
            "False InvalidCertificateRef",
        ),
        (
            "port: 443, protocol: HTTPS, tls: {certificateRefs: [{kind: ConfigMap, name: a}]}",
            "False UnsupportedValue",
            "False InvalidCertificateRef",
        ),
        (
            "port: 443, protocol: HTTPS, tls: {certificateRefs: [{group: x.io, name: a}]}",
            "False UnsupportedValue",
            "False InvalidCertificateRef",
        ),
        (
            "port: 443, protocol: HTTPS, tls: {certificateRefs: [{group: x.io, name: a}, {name: b}]}",
            "True Accepted",
            "False InvalidCertificateRef",
        ),
        (
            "port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: InvalidRoute}]}",
            "True Accepted",
            "False InvalidRouteKinds",
        ),
        (
            "port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}, {kind: HTTPRoute}]}",
            "True Accepted",
            "False InvalidRouteKinds",
        ),
        (
            "port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector}}",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}}}",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: a, operator: In}]}}}",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
        (
            "port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}",
            "False UnsupportedValue",
            "True ResolvedRefs",
        ),
    ] {
        let run = gateway(&format!("listeners: [{{name: l, {listener}}}]"));
        assert_eq!(at(&run, "l", "Accepted"), accepted, "{listener}");
        assert_eq!(at(&run, "l", "ResolvedRefs"), resolved, "{listener}");
        let good = accepted.starts_with("True");
        assert_eq!(listeners(&run)[0].accepted, good, "{listener}");
        let expected = if good {
            "True Accepted"
        } else {
            "False ListenersNotValid"
        };
        assert_eq!(whole(&run), expected, "{listener}");
    }
}

#[test]
fn kinds_that_are_supported_are_kept() {
    let kinds = |kinds: &str| {
        let run = gateway(&format!(
            "listeners: [{{name: l, port: 80, protocol: HTTP, allowedRoutes: {{kinds: {kinds}}}}}]"
        ));
        let found = listeners(&run).remove(0).kinds;
        found
            .into_iter()
            .map(|kind| kind.to_string())
            .collect::<Vec<_>>()
    };
    let http = "HTTPRoute.gateway.networking.k8s.io";
    assert_eq!(kinds("[]"), [http]);
    assert_eq!(kinds("[{kind: HTTPRoute}, {kind: HTTPRoute}]"), [http]);
    assert_eq!(kinds("[{kind: HTTPRoute}, {kind: X}]"), [http]);
    assert!(kinds("[{kind: X}]").is_empty());
    assert!(kinds("[{group: x.io, kind: HTTPRoute}]").is_empty());
    let run = gateway("listeners: [{name: l, port: 80, protocol: UDP}]");
    assert!(listeners(&run)[0].kinds.is_empty());
}

#[test]
fn namespaces() {
    let scope = |namespaces: &str| {
        let run = gateway(&format!(
            "listeners: [{{name: l, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {namespaces}}}}}]"
        ));
        listeners(&run).remove(0).namespaces
    };
    assert_eq!(scope("{}"), NamespaceScope::Same);
    assert_eq!(scope("{from: Same}"), NamespaceScope::Same);
    assert_eq!(scope("{from: All}"), NamespaceScope::All);
    let NamespaceScope::Selector(selector) = scope(
        "{from: Selector, selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d]}]}}",
    ) else {
        panic!("no selector");
    };
    assert_eq!(selector.match_labels["a"], "b");
    assert_eq!(selector.match_expressions[0].operator, LabelOperator::NotIn);
}

#[test]
fn all_listeners_in_conflict_are_refused() {
    let run = gateway(
        "listeners: [{name: a, port: 80, protocol: HTTP, hostname: a.com}, {name: b, port: 80, protocol: HTTP, hostname: a.com}, {name: c, port: 80, protocol: HTTP}, {name: d, port: 81, protocol: HTTP, hostname: a.com}]",
    );
    for (name, accepted, conflicted) in [
        ("a", "False HostnameConflict", "True HostnameConflict"),
        ("b", "False HostnameConflict", "True HostnameConflict"),
        ("c", "True Accepted", "False NoConflicts"),
        ("d", "True Accepted", "False NoConflicts"),
    ] {
        assert_eq!(at(&run, name, "Accepted"), accepted, "{name}");
        assert_eq!(at(&run, name, "Conflicted"), conflicted, "{name}");
    }
    assert_eq!(whole(&run), "True ListenersNotValid");
    let message = &run.condition("Accepted").expect("a condition").message;
    assert_eq!(message, "not accepted: a, b; accepted: c, d");
    let accepted: Vec<bool> = listeners(&run).iter().map(|one| one.accepted).collect();
    assert_eq!(accepted, [false, false, true, true]);
}

#[test]
fn a_port_speaks_one_protocol() {
    let tls = "tls: {certificateRefs: [{name: s}]}";
    let run = gateway(&format!(
        "listeners: [{{name: a, port: 80, protocol: HTTP}}, {{name: b, port: 80, protocol: HTTPS, hostname: b.com, {tls}}}, {{name: c, port: 80, protocol: TCP}}]"
    ));
    assert_eq!(at(&run, "a", "Conflicted"), "True ProtocolConflict");
    assert_eq!(at(&run, "b", "Conflicted"), "True ProtocolConflict");
    // Not spoken here at all, so it takes nothing away from others.
    assert_eq!(at(&run, "c", "Conflicted"), "False NoConflicts");
    assert_eq!(at(&run, "c", "Accepted"), "False UnsupportedProtocol");
    assert_eq!(whole(&run), "False ListenersNotValid");
}

#[test]
fn overlapping_tls_hostnames_are_told_not_refused() {
    let tls = "port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: s}]}";
    let run = gateway(&format!(
        "listeners: [{{name: a, hostname: '*.example.com', {tls}}}, {{name: b, hostname: foo.example.com, {tls}}}, {{name: c, hostname: foo.example.org, {tls}}}, {{name: d, port: 80, protocol: HTTP}}]"
    ));
    assert_eq!(
        at(&run, "a", "OverlappingTLSConfig"),
        "True OverlappingHostnames"
    );
    assert_eq!(
        at(&run, "b", "OverlappingTLSConfig"),
        "True OverlappingHostnames"
    );
    assert_eq!(at(&run, "c", "OverlappingTLSConfig"), "");
    assert_eq!(at(&run, "d", "OverlappingTLSConfig"), "");
    assert_eq!(whole(&run), "True Accepted");
}

#[test]
fn addresses() {
    for (addresses, accepted, expected) in [
        ("[]", "True Accepted", vec![]),
        (
            "[{value: 127.0.0.2}, {type: IPAddress, value: '::1'}]",
            "True Accepted",
            vec!["127.0.0.2", "::1"],
        ),
        ("[{type: IPAddress}]", "True Accepted", vec![]),
        (
            "[{type: Hostname, value: a.com}]",
            "False UnsupportedAddress",
            vec![],
        ),
        (
            "[{type: test/fake, value: x}, {value: 127.0.0.1}]",
            "False UnsupportedAddress",
            vec![],
        ),
        ("[{value: 127.0.0.256}]", "False Invalid", vec![]),
        (
            "[{value: 127.0.0.1}, {value: 127.0.0.1}]",
            "False Invalid",
            vec![],
        ),
    ] {
        let run = gateway(&format!(
            "addresses: {addresses}, listeners: [{{name: l, port: 80, protocol: HTTP}}]"
        ));
        assert_eq!(whole(&run), accepted, "{addresses}");
        let document: Gateway = run.document().expect("a document");
        assert_eq!(document.addresses, expected, "{addresses}");
        assert_eq!(document.listeners[0].accepted, accepted.starts_with("True"));
    }
}

#[test]
fn gateways_that_are_refused_as_a_whole() {
    let many: Vec<String> = (1..=65)
        .map(|i| format!("{{name: l{i}, port: {i}, protocol: HTTP}}"))
        .collect();
    let good = "listeners: [{name: a, port: 80, protocol: HTTP}]";
    for (spec, reason, message) in [
        ("listeners: []", "Invalid", "spec.listeners: has 0 entries"),
        (
            &format!("listeners: [{}]", many.join(", ")),
            "Invalid",
            "spec.listeners: has 65 entries",
        ),
        (
            "listeners: [{name: a, port: 80, protocol: HTTP}, {name: a, port: 81, protocol: HTTP}]",
            "Invalid",
            "spec.listeners[1].name: ",
        ),
        (
            "listeners: [{name: A, port: 80, protocol: HTTP}]",
            "Invalid",
            "spec.listeners[0].name: ",
        ),
        (
            r#"listeners: [{name: "a\0", port: 80, protocol: HTTP}]"#,
            "Invalid",
            "spec.listeners[0].name: ",
        ),
        (
            "listeners: [{name: a, port: 0, protocol: HTTP}]",
            "Invalid",
            "spec.listeners[0].port: ",
        ),
        (
            "listeners: [{name: a, port: 70000, protocol: HTTP}]",
            "Invalid",
            "spec.listeners[0].port: ",
        ),
        (
            "listeners: [{name: a, prot: 80, port: 80, protocol: HTTP}]",
            "UnsupportedValue",
            "spec.listeners[0].prot: unknown field",
        ),
        (
            "listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Some}}}]",
            "UnsupportedValue",
            "unknown variant `Some`",
        ),
        (
            "listeners: [{name: a, port: http, protocol: HTTP}]",
            "Invalid",
            "spec.listeners[0].port: invalid type",
        ),
        (
            &format!("{good}, infrastructure: {{parametersRef: {{group: a, kind: b, name: c}}}}"),
            "InvalidParameters",
            "spec.infrastructure.parametersRef",
        ),
        (
            &format!("{good}, tls: {{frontend: {{default: {{}}}}}}"),
            "UnsupportedValue",
            "spec.tls: ",
        ),
    ] {
        let run = gateway(spec);
        assert_eq!(whole(&run), format!("False {reason}"), "{spec}");
        let said = &run.condition("Accepted").expect("a condition").message;
        assert!(said.contains(message), "{spec}: {said}");
        assert!(listeners(&run).is_empty(), "ours, and it offers nothing");
        assert_eq!(run.output.conditions.len(), 1);
    }
}

#[test]
fn listener_sets_are_said_to_be_ignored() {
    let run = gateway(
        "listeners: [{name: a, port: 80, protocol: HTTP}], allowedListeners: {namespaces: {from: All}}",
    );
    let condition = run.condition("Accepted").expect("a condition");
    assert_eq!(condition.status, ConditionStatus::True);
    assert!(condition.message.contains("ListenerSets"));
}
