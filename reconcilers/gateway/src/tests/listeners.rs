//! Listeners by themselves, and in conflict with each other.

use super::*;
use chiton_guest::ObjectRef;
use chiton_guest::ir::gateway::{LabelOperator, NamespaceScope, Protocol};

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
#[allow(clippy::too_many_lines)] // a table
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
