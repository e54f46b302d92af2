//! Matches, timeouts and backends of a rule.

use super::*;
use chiton_guest::ir::route::{BackendTarget, Match, PathMatch, StringMatch, Timeouts};

fn one_match(yaml: &str) -> Match {
    good(&format!("{{matches: [{yaml}]}}")).matches.remove(0)
}

#[test]
fn nothing_given_is_every_request() {
    assert_eq!(good("{}").matches, [Match::default()]);
    assert_eq!(good("{matches: []}").matches, [Match::default()]);
    assert_eq!(one_match("{}"), Match::default());
    let run = route(&open(), json!({"parentRefs": [{"name": "g"}]}));
    assert_eq!(
        converted(&run),
        [Rule {
            matches: vec![Match::default()],
            ..Rule::default()
        }]
    );
}

#[test]
fn paths() {
    for (yaml, expected) in [
        ("{path: {value: /a}}", PathMatch::Prefix("/a".into())),
        ("{path: {type: PathPrefix}}", PathMatch::Prefix("/".into())),
        (
            "{path: {type: PathPrefix, value: /a/}}",
            PathMatch::Prefix("/a".into()),
        ),
        (
            "{path: {type: PathPrefix, value: /}}",
            PathMatch::Prefix("/".into()),
        ),
        (
            "{path: {type: Exact, value: /a/}}",
            PathMatch::Exact("/a/".into()),
        ),
        (
            "{path: {type: Exact, value: /}}",
            PathMatch::Exact("/".into()),
        ),
        (
            "{path: {type: RegularExpression, value: '/a[0-9]+'}}",
            PathMatch::Regex("/a[0-9]+".into()),
        ),
    ] {
        assert_eq!(one_match(yaml).path, expected, "{yaml}");
    }
}

#[test]
fn paths_that_are_not_valid() {
    for path in [
        "{value: a}",
        "{value: ''}",
        "{type: Exact, value: /a//b}",
        "{type: Exact, value: /a/../b}",
        "{value: /a/./b}",
        "{value: /a/..}",
        "{value: /a/.}",
        "{value: /a%2Fb}",
        "{value: '/a#b'}",
        "{value: '/a?b'}",
        "{value: '/a b'}",
        "{value: /ü}",
        r#"{value: "/a\0"}"#,
        "{type: RegularExpression, value: '('}",
        "{type: RegularExpression, value: ''}",
        "{type: RegularExpression, value: '(?=a)'}",
        r"{type: RegularExpression, value: '(a)\1'}",
        "{type: RegularExpression, value: '(a{1,100}){100}'}",
        "{type: RegularExpression, value: '/ü'}",
    ] {
        let (reason, message) = bad(&format!("{{matches: [{{path: {path}}}]}}"));
        assert_eq!(reason, "UnsupportedValue", "{path}");
        let start = "No rule is valid: spec.rules[0].matches[0].path.value: ";
        assert!(message.starts_with(start), "{path}: {message}");
    }
}

#[test]
fn of_equivalent_header_names_the_first_counts() {
    let found = one_match(
        "{headers: [{name: X-A, value: '1'}, {name: x-a, value: '2'}, {name: x-b, type: RegularExpression, value: b+}]}",
    );
    let names: Vec<&str> = found
        .headers
        .iter()
        .map(|header| header.name.as_str())
        .collect();
    assert_eq!(names, ["x-a", "x-b"]);
    assert_eq!(found.headers[0].value, StringMatch::Exact("1".into()));
    assert_eq!(found.headers[1].value, StringMatch::Regex("b+".into()));
}

#[test]
fn query_names_are_compared_with_case() {
    let found = one_match(
        "{queryParams: [{name: a, value: '1'}, {name: a, value: '2'}, {name: A, type: RegularExpression, value: .}]}",
    );
    assert_eq!(found.query.len(), 2);
    assert_eq!(found.query[0].value, StringMatch::Exact("1".into()));
    assert_eq!(found.query[1].name, "A");
}

#[test]
fn headers_and_queries_that_are_not_valid() {
    for (yaml, field) in [
        ("{headers: [{name: 'a b', value: x}]}", "headers[0].name"),
        ("{headers: [{name: ':path', value: x}]}", "headers[0].name"),
        ("{headers: [{name: '', value: x}]}", "headers[0].name"),
        ("{headers: [{name: a, value: ''}]}", "headers[0].value"),
        (
            r#"{headers: [{name: a, value: "x\r\ny"}]}"#,
            "headers[0].value",
        ),
        (
            r#"{headers: [{name: a, value: "x\0"}]}"#,
            "headers[0].value",
        ),
        (
            "{headers: [{name: a, type: RegularExpression, value: '['}]}",
            "headers[0].value",
        ),
        (
            "{queryParams: [{name: 'a=b', value: x}]}",
            "queryParams[0].name",
        ),
        (
            "{queryParams: [{name: a, value: ''}]}",
            "queryParams[0].value",
        ),
        (
            "{queryParams: [{name: a, type: RegularExpression, value: '*'}]}",
            "queryParams[0].value",
        ),
    ] {
        let (_, message) = bad(&format!("{{matches: [{yaml}]}}"));
        assert!(
            message.contains(&format!("matches[0].{field}: ")),
            "{yaml}: {message}"
        );
    }
}

#[test]
fn methods() {
    assert_eq!(one_match("{method: GET}").method.as_deref(), Some("GET"));
    assert_eq!(
        one_match("{method: PATCH}").method.as_deref(),
        Some("PATCH")
    );
    let run = rules("[{matches: [{method: get}]}]");
    assert_eq!(said(&run, "g", "Accepted").0, "UnsupportedValue");
}

#[test]
fn an_invalid_match_is_left_out_and_its_rule_answers_with_500() {
    let run = rules(
        "[{matches: [{path: {value: /good}}, {path: {value: bad}}], backendRefs: [{name: s, port: 80}]}, {matches: [{path: {value: /b}}], backendRefs: [{name: s, port: 80}]}]",
    );
    let rules = converted(&run);
    assert_eq!(rules.len(), 2);
    assert!(rules[0].invalid && rules[0].backends.is_empty());
    assert_eq!(rules[0].matches.len(), 1);
    assert!(!rules[1].invalid);
    assert_eq!(said(&run, "g", "Accepted").0, "Accepted");
    let (reason, message) = said(&run, "g", "PartiallyInvalid");
    assert_eq!(reason, "UnsupportedValue");
    assert!(
        message.starts_with("Dropped Rule: spec.rules[0].matches[1].path.value: must start"),
        "{message}"
    );
    assert_eq!(said(&run, "g", "ResolvedRefs").0, "ResolvedRefs");
}

#[test]
fn a_rule_of_which_no_match_is_known_is_left_out() {
    let run = rules("[{matches: [{path: {value: bad}}]}, {}]");
    assert_eq!(converted(&run).len(), 1);
    assert_eq!(said(&run, "g", "PartiallyInvalid").0, "UnsupportedValue");
}

#[test]
fn timeouts() {
    for (yaml, request_ms, backend_request_ms) in [
        ("{request: 10s}", Some(10_000), None),
        (
            "{request: 1m30s, backendRequest: 500ms}",
            Some(90_000),
            Some(500),
        ),
        (
            "{request: 0s, backendRequest: 1h}",
            Some(0),
            Some(3_600_000),
        ),
        (
            "{request: 1s, backendRequest: 1s}",
            Some(1_000),
            Some(1_000),
        ),
    ] {
        let expected = Timeouts {
            request_ms,
            backend_request_ms,
        };
        assert_eq!(
            good(&format!("{{timeouts: {yaml}}}")).timeouts,
            expected,
            "{yaml}"
        );
    }
    for (yaml, field) in [
        ("{request: '10'}", "request"),
        ("{request: 1.5s}", "request"),
        ("{request: -1s}", "request"),
        ("{backendRequest: 1d}", "backendRequest"),
        ("{request: 1s, backendRequest: 2s}", "backendRequest"),
    ] {
        let (_, message) = bad(&format!("{{timeouts: {yaml}}}"));
        assert!(
            message.contains(&format!("timeouts.{field}: ")),
            "{yaml}: {message}"
        );
    }
}

#[test]
fn backends_get_their_defaults() {
    let rule = good(
        "{backendRefs: [{name: a, port: 80}, {name: b, namespace: other, port: 1, weight: 0}, {group: chiton.dev, kind: Backend, name: c, weight: 1000000}]}",
    );
    let target = |group: &str, kind: &str, namespace: &str, name: &str, port| BackendTarget {
        object: ObjectRef::new(group, kind, namespace, name),
        port,
    };
    let found: Vec<_> = rule
        .backends
        .into_iter()
        .map(|one| (one.target, one.weight))
        .collect();
    assert_eq!(
        found,
        [
            (target("", "Service", "default", "a", Some(80)), 1),
            (target("", "Service", "other", "b", Some(1)), 0),
            (
                target("chiton.dev", "Backend", "default", "c", None),
                1_000_000
            ),
        ]
    );
}

#[test]
fn kinds_of_backends_are_the_hosts_to_judge() {
    let rule = good("{backendRefs: [{group: x.io, kind: Thing, name: a}]}");
    assert_eq!(rule.backends[0].target.object.kind, "Thing");
}

#[test]
fn backends_that_are_not_valid() {
    for (yaml, field) in [
        ("{name: a}", "port"),
        ("{name: a, port: 0}", "port"),
        ("{name: a, port: 70000}", "port"),
        ("{name: '', port: 80}", "name"),
        ("{name: a, port: 80, weight: -1}", "weight"),
        ("{name: a, port: 80, weight: 1000001}", "weight"),
    ] {
        let (reason, message) = bad(&format!("{{backendRefs: [{yaml}]}}"));
        assert_eq!(reason, "UnsupportedValue");
        assert!(
            message.contains(&format!("backendRefs[0].{field}: ")),
            "{yaml}: {message}"
        );
    }
}
