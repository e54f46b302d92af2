//! Tests of the `api-key` policy.

use super::*;
use chiton_guest::testing::World;

#[test]
fn secrets_are_references_in_the_policys_namespace() {
    let run = World::new().policy_with::<ApiKey>(
        "{secretRefs: [{name: a}, {name: b}], in: cookie, name: key, clientHeader: x-client}",
    );
    let expected = Effects {
        secrets: vec![
            ObjectRef::new("", "Secret", "default", "a"),
            ObjectRef::new("", "Secret", "default", "b"),
        ],
        sources: vec![KeySource::Cookie("key".into())],
        client_header: Some("x-client".into()),
    };
    assert_eq!(run.effects(), [Effect::ApiKey(expected)]);
    assert_eq!(run.reads, [], "keys are never read");
}

#[test]
fn what_would_let_nobody_or_anybody_in_is_refused() {
    for (settings, why) in [
        ("{secretRefs: [], in: header, name: k}", "secretRefs: "),
        (
            "{secretRefs: [{name: ''}], in: header, name: k}",
            "secretRefs: ",
        ),
        ("{secretRefs: [{name: a}], in: header, name: ''}", "name: "),
        (
            "{secretRefs: [{name: a}], in: body, name: k}",
            "spec.default.in: unknown variant",
        ),
        (
            "{secretRefs: [{name: a, namespace: b}], in: header, name: k}",
            "unknown field",
        ),
        (
            "{secretRefs: [{name: a}], in: header, name: k, clientHeader: Host}",
            "clientHeader: ",
        ),
    ] {
        let run = World::new().policy_with::<ApiKey>(settings);
        assert!(run.refusal().contains(why), "{}", run.refusal());
    }
}
