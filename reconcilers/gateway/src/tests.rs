#![allow(clippy::unwrap_used, clippy::expect_used)]

mod listeners;

use crate::Gateways;
use chiton_guest::ir::gateway::{Gateway, Listener};
use chiton_guest::testing::{Run, World};
use chiton_guest::{ConditionStatus, Scope};

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
