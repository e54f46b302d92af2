#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::Apis;
use chiton_guest::ir::api::{Api, SandboxHeader};
use chiton_guest::testing::{Read, Run, World};
use chiton_guest::{ConditionStatus, ObjectRef};

fn route(name: &str) -> ObjectRef {
    ObjectRef::new("gateway.networking.k8s.io", "HTTPRoute", "default", name)
}

/// A world with the routes `live` and `test`.
fn world() -> World {
    ["live", "test"].into_iter().fold(World::new(), |world, name| {
        world.yaml(&format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: {name}, namespace: default}}, spec: {{}}}}"
        ))
    })
}

fn api(spec: &str) -> Run {
    let run = world().reconcile::<Apis>(&format!(
        "{{apiVersion: chiton.dev/v1alpha1, kind: API, metadata: {{name: a, namespace: default}}, spec: {spec}}}"
    ));
    assert_eq!(run.failure, None);
    run
}

#[test]
fn an_api_with_both_environments() {
    let run = api(
        "{displayName: Orders, basePath: /orders/, version: v1, isDefaultVersion: true, production: {name: live}, sandbox: {name: test}, sandboxHeader: {name: X-Env, value: sandbox}, definition: {name: cm, key: openapi.yaml}}",
    );
    assert_eq!(run.reason("Accepted"), "Accepted");
    assert_eq!(run.reason("ResolvedRefs"), "ResolvedRefs");
    let expected = Api {
        prefixes: vec!["/orders/v1".into(), "/orders".into()],
        production: Some(route("live")),
        sandbox: Some(route("test")),
        sandbox_header: Some(SandboxHeader {
            name: "x-env".into(),
            value: "sandbox".into(),
        }),
    };
    assert_eq!(run.document::<Api>(), Some(expected));
    assert_eq!(
        run.reads,
        [Read::Get(route("live")), Read::Get(route("test"))]
    );
}

#[test]
fn one_environment_is_enough() {
    for (spec, production, sandbox) in [
        ("production: {name: live}", Some("live"), None),
        ("sandbox: {name: test}", None, Some("test")),
        (
            "sandbox: {name: test}, sandboxHeader: {name: a, value: b}",
            None,
            Some("test"),
        ),
        (
            "production: {name: live}, sandbox: {name: test}",
            Some("live"),
            Some("test"),
        ),
        (
            "production: {name: live}, sandbox: {name: live}, sandboxHeader: {name: a, value: b}",
            Some("live"),
            Some("live"),
        ),
    ] {
        let run = api(&format!("{{basePath: /a, version: v1, {spec}}}"));
        let document: Api = run.document().expect("a document");
        assert_eq!(document.production, production.map(route), "{spec}");
        assert_eq!(document.sandbox, sandbox.map(route), "{spec}");
    }
}

#[test]
fn a_route_that_does_not_exist_is_said_and_kept() {
    let run = api("{basePath: /a, version: v1, production: {name: gone}, sandbox: {name: test}}");
    assert_eq!(run.reason("Accepted"), "Accepted");
    let condition = run.condition("ResolvedRefs").expect("a condition");
    assert_eq!(condition.status, ConditionStatus::False);
    assert_eq!(condition.reason, "RouteNotFound");
    assert_eq!(condition.message, "HTTPRoute default/gone does not exist");
    let document: Api = run.document().expect("a document");
    assert_eq!(document.production, Some(route("gone")));
}

#[test]
fn apis_that_are_refused() {
    let live = "production: {name: live}";
    for (spec, reason, message) in [
        (
            format!("basePath: a, version: v1, {live}"),
            "Invalid",
            "spec.basePath: must start with",
        ),
        (
            format!("basePath: '/a?b', version: v1, {live}"),
            "Invalid",
            "spec.basePath: ",
        ),
        (
            format!("basePath: /a, version: v1/b, {live}"),
            "Invalid",
            "spec.version: ",
        ),
        (
            format!("basePath: /a, version: '', {live}"),
            "Invalid",
            "spec.version: ",
        ),
        (
            "basePath: /a, version: v1".into(),
            "Invalid",
            "spec: names no route",
        ),
        (
            "basePath: /a, version: v1, production: {name: ''}".into(),
            "Invalid",
            "spec.production.name: ",
        ),
        (
            "basePath: /a, version: v1, production: {name: live}, sandbox: {name: live}".into(),
            "Invalid",
            "spec.sandbox: ",
        ),
        (
            format!("basePath: /a, version: v1, {live}, sandboxHeader: {{name: a, value: b}}"),
            "Invalid",
            "spec.sandboxHeader: ",
        ),
        (
            format!(
                "basePath: /a, version: v1, {live}, sandbox: {{name: test}}, sandboxHeader: {{name: 'a b', value: b}}"
            ),
            "Invalid",
            "spec.sandboxHeader.name: ",
        ),
        (
            format!(
                "basePath: /a, version: v1, {live}, sandbox: {{name: test}}, sandboxHeader: {{name: a, value: ''}}"
            ),
            "Invalid",
            "spec.sandboxHeader.value: ",
        ),
        (
            format!(
                r#"basePath: /a, version: v1, {live}, sandbox: {{name: test}}, sandboxHeader: {{name: a, value: "x\r\ny"}}"#
            ),
            "Invalid",
            "spec.sandboxHeader.value: ",
        ),
        (
            format!("basePath: /a, version: 1, {live}"),
            "Invalid",
            "spec.version: invalid type",
        ),
        (
            format!("version: v1, {live}"),
            "Invalid",
            "missing field `basePath`",
        ),
        (
            format!("basePath: /a, version: v1, prodution: {{name: live}}, {live}"),
            "UnsupportedValue",
            "spec.prodution: unknown field",
        ),
    ] {
        let run = api(&format!("{{{spec}}}"));
        assert_eq!(run.reason("Accepted"), reason, "{spec}");
        assert!(run.refusal().contains(message), "{spec}: {}", run.refusal());
    }
}
