//! Routes that are refused as a whole.

use super::*;
use serde_json::Map;

/// Reason and message of a route that has no document.
fn refused(spec: Value) -> (String, String) {
    let run = route(&open(), spec);
    assert!(
        run.output.documents.is_empty(),
        "{:?}",
        run.output.conditions
    );
    assert_eq!(run.output.conditions.len(), 1);
    let condition = at(&run, "g", "Accepted").expect("a condition at the parent");
    assert_eq!(condition.status, ConditionStatus::False);
    (condition.reason.clone(), condition.message.clone())
}

fn with(field: &str, value: Value) -> Value {
    let mut spec = Map::from_iter([("parentRefs".to_owned(), json!([{"name": "g"}]))]);
    spec.insert(field.to_owned(), value);
    Value::Object(spec)
}

#[test]
fn what_is_not_understood_is_refused_with_its_path() {
    for (field, value, reason, message) in [
        (
            "rules",
            json!([{"matchs": []}]),
            "UnsupportedValue",
            "spec.rules[0].matchs: unknown field",
        ),
        (
            "rules",
            json!([{"retry": {}}]),
            "UnsupportedValue",
            "spec.rules[0].retry: unknown field",
        ),
        (
            "ruels",
            json!([]),
            "UnsupportedValue",
            "spec.ruels: unknown field",
        ),
        (
            "rules",
            json!([{"matches": [{"path": {"type": "Glob"}}]}]),
            "UnsupportedValue",
            "spec.rules[0].matches[0].path.type: unknown variant `Glob`",
        ),
        (
            "rules",
            json!([{"matches": "x"}]),
            "Invalid",
            "spec.rules[0].matches: invalid type",
        ),
        (
            "rules",
            json!([{"backendRefs": [{"name": "a", "port": "80"}]}]),
            "Invalid",
            "spec.rules[0].backendRefs[0].port: invalid type",
        ),
        (
            "rules",
            json!([{"backendRefs": [{}]}]),
            "Invalid",
            "missing field `name`",
        ),
        (
            "hostnames",
            json!("a.com"),
            "Invalid",
            "spec.hostnames: invalid type",
        ),
    ] {
        let (found, said) = refused(with(field, value.clone()));
        assert_eq!(found, reason, "{value}");
        assert!(said.contains(message), "{value}: {said}");
    }
}

#[test]
fn hostnames_have_to_be_hostnames() {
    for name in [
        "10.0.0.1", "a_b.com", "*", "a.*.com", "A.com", "a.com:80", "", "ü.com", "a\0.com",
    ] {
        let (reason, message) = refused(with("hostnames", json!(["good.com", name])));
        assert_eq!(reason, "Invalid", "{name:?}");
        assert!(
            message.starts_with("spec.hostnames[1]: "),
            "{name:?}: {message}"
        );
    }
}

#[test]
fn lists_are_bounded() {
    let many = |count: usize, value: Value| Value::Array(vec![value; count]);
    let header = json!({"name": "a", "value": "b"});
    for (field, value, path) in [
        ("rules", many(17, json!({})), "spec.rules: "),
        (
            "rules",
            many(10_000, json!({})),
            "spec.rules: has 10000 entries, at most 16",
        ),
        ("rules", json!([]), "spec.rules: "),
        (
            "rules",
            json!([{"matches": many(65, json!({}))}]),
            "spec.rules[0].matches: ",
        ),
        (
            "rules",
            many(3, json!({"matches": many(60, json!({}))})),
            "spec.rules: matches of all rules: ",
        ),
        (
            "rules",
            json!([{"matches": [{"headers": many(17, header.clone())}]}]),
            "spec.rules[0].matches[0].headers: ",
        ),
        (
            "rules",
            json!([{"matches": [{"queryParams": many(17, header.clone())}]}]),
            "spec.rules[0].matches[0].queryParams: ",
        ),
        (
            "rules",
            json!([{"backendRefs": many(17, json!({"name": "a", "port": 1}))}]),
            "spec.rules[0].backendRefs: ",
        ),
        (
            "rules",
            json!([{"filters": many(17, json!({"type": "RequestMirror"}))}]),
            "spec.rules[0].filters: ",
        ),
        (
            "rules",
            json!([{"filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"add": many(17, header)}}]}]),
            "spec.rules[0].filters[0]: headers: ",
        ),
        ("hostnames", many(17, json!("a.com")), "spec.hostnames: "),
    ] {
        let (reason, message) = refused(with(field, value));
        assert_eq!(reason, "Invalid", "{path}");
        assert!(message.starts_with(path), "{path}: {message}");
    }
}

#[test]
fn as_much_as_the_bounds_allow_is_taken() {
    let matches: Vec<Value> = (0..8)
        .map(|i| json!({"path": {"value": format!("/{i}")}}))
        .collect();
    let rules = vec![json!({"matches": matches}); 16];
    let run = route(&open(), with("rules", json!(rules)));
    assert_eq!(said(&run, "g", "Accepted").0, "Accepted");
    assert_eq!(converted(&run).len(), 16);
}

#[test]
fn names_of_rules_are_unique_and_valid() {
    let (reason, message) = refused(with("rules", json!([{"name": "a"}, {"name": "a"}])));
    assert_eq!(reason, "Invalid");
    assert!(message.starts_with("spec.rules[1].name: "), "{message}");
    for name in ["", "A", "a b", "ü", "a\0"] {
        let (_, message) = refused(with("rules", json!([{"name": name}])));
        assert!(
            message.starts_with("spec.rules[0].name: "),
            "{name:?}: {message}"
        );
    }
    assert_eq!(good("{name: checkout}").name.as_deref(), Some("checkout"));
}

#[test]
fn many_parents_are_refused() {
    let mut parents: Vec<Value> = (0..32)
        .map(|i| json!({"name": "g", "sectionName": format!("s{i}")}))
        .collect();
    parents.push(json!({"name": "g", "sectionName": "http"}));
    let run = route(&open(), json!({"parentRefs": parents}));
    assert!(run.output.documents.is_empty());
    assert_eq!(run.output.conditions.len(), 33);
}

#[test]
fn where_parents_cannot_be_read_the_object_says_it() {
    let run = route(&open(), json!({"parentRefs": "g"}));
    assert_eq!(run.reason("Accepted"), "Invalid");
    let run = route(&open(), json!({"parentRefs": [{"nam": "g"}]}));
    assert_eq!(run.reason("Accepted"), "Invalid");
    let run = route(&open(), json!({"rulez": []}));
    assert_eq!(run.reason("Accepted"), "UnsupportedValue");
    // One that can be read says it for all.
    let run = route(
        &open(),
        json!({"parentRefs": [{"nam": "g"}, {"name": "g"}]}),
    );
    assert_eq!(said(&run, "g", "Accepted").0, "Invalid");
    // Somebody else's route is somebody else's to judge.
    let theirs = World::new().yaml(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: default}}",
    );
    let run = route(&theirs, json!({"parentRefs": [{"name": "g"}], "rulez": []}));
    assert!(run.output.conditions.is_empty());
}

#[test]
fn many_mistakes_make_a_short_message() {
    let matches = vec![json!({"path": {"value": "x"}}); 40];
    let run = route(&open(), with("rules", json!([{"matches": matches}, {}])));
    let (_, message) = said(&run, "g", "PartiallyInvalid");
    assert!(message.contains("; and 32 more"), "{message}");
}

#[test]
fn the_same_input_gives_the_same_output() {
    let spec = json!({"parentRefs": [{"name": "g"}], "hostnames": ["b.com", "a.com"], "rules": [{}, {"matches": [{"path": {"value": "x"}}]}]});
    let (a, b) = (route(&open(), spec.clone()), route(&open(), spec));
    assert_eq!(a.output, b.output);
}
