//! Checks of what goes to modules and of what they return.

use super::fake::Fake;
use super::{Rig, conditions, key, object};
use crate::modules::FailurePolicy;
use crate::pipeline::RunState;
use crate::sandbox::Role;
use serde_json::{Value, json};
use std::sync::Arc;

fn failure(spec: Value) -> String {
    let mut rig = Rig::new();
    let name = if spec.get("type").is_some() {
        "Policy/p"
    } else {
        "Gateway/g"
    };
    rig.put(name, spec);
    rig.run();
    match &rig.result(name).state {
        RunState::Failed(reason) => reason.clone(),
        state => panic!("{state:?}"),
    }
}

#[test]
fn a_document_that_is_not_its_type_is_the_module_s_failure() {
    let unknown = failure(json!({"raw": {"listeners": [], "adresses": []}}));
    assert!(unknown.contains("unknown field `adresses`"), "{unknown}");
    let nested = failure(json!({"raw": {"listeners": [{"name": 7}]}}));
    assert!(nested.contains("listeners[0].name"), "{nested}");
    let target = json!({"object": {"kind": "API", "namespace": "elsewhere", "name": "a"}});
    let foreign = failure(json!({"type": "policy", "raw": {"targets": [target]}}));
    assert!(foreign.contains("own namespace"), "{foreign}");
    let status = json!({"targets": [], "default": [{"respond": {"status": 99}}]});
    let status = failure(json!({"type": "policy", "raw": status}));
    assert!(status.contains("default[0].respond: status 99"), "{status}");
}

#[test]
fn settings_are_checked_before_the_module_runs() {
    let schema = json!({
        "type": "object",
        "properties": {"limits": {"type": "array", "items": {"type": "integer"}}},
        "additionalProperties": false,
    });
    let policy = Fake::new(Role::Policy).schema(schema).live();
    let mut rig = Rig::with(Fake::with_policy(policy));
    rig.put(
        "Policy/p",
        json!({"type": "policy", "override": {"limits": [1, 2]}}),
    );
    assert_eq!(rig.ran(), ["Policy/p"]);
    assert_ne!(rig.document("Policy/p"), "");
    rig.put(
        "Policy/p",
        json!({"type": "policy", "override": {"limits": [1, "x"]}}),
    );
    assert_eq!(rig.ran(), [""; 0]);
    let result = rig.result("Policy/p");
    assert_eq!(conditions(&result), ["Accepted=False Invalid"]);
    let message = &result.conditions[0].message;
    assert!(
        message.starts_with("spec.override.limits[1]: "),
        "{message}"
    );
    assert_eq!(
        rig.document("Policy/p"),
        "",
        "an invalid object is not kept at an old form"
    );
}

/// A closed policy with a schema, in a world where it is refused before or by its module.
#[test]
fn a_closed_policy_with_a_mistake_in_it_answers_500() {
    let schema = json!({"properties": {"n": {"type": "integer"}}});
    let policy = Fake::new(Role::Policy)
        .schema(schema)
        .live_with(FailurePolicy::FailClosed);
    let mut rig = Rig::with(Fake::with_policy(policy));
    let refs = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}]);
    let spec = |n: Value, refs: Value| json!({"type": "policy", "default": {"n": n}, "targets": ["HTTPRoute/r"], "targetRefs": refs});
    rig.put("Policy/p", spec(json!(1), refs.clone()));
    rig.run();
    let good = rig.document("Policy/p");
    assert!(!good.contains("500"), "{good}");
    let message = |rig: &Rig| rig.result("Policy/p").conditions[0].message.clone();

    rig.put("Policy/p", spec(json!("x"), refs.clone()));
    rig.run();
    let closed = rig.document("Policy/p");
    assert!(
        closed.contains(r#""override":[{"respond":{"status":500}}]"#),
        "{closed}"
    );
    assert!(message(&rig).ends_with("answered with 500 until it is corrected"));
    assert_eq!(
        conditions(&rig.result("Policy/p")),
        ["Accepted=False Invalid"]
    );

    // A mistake in a target is no way around it.
    for reference in [
        json!({"kind": "HTTPRoute", "name": "r"}),
        json!({"group": 7, "kind": "HTTPRoute", "name": "r", "sectionName": {}}),
    ] {
        rig.put("Policy/p", spec(json!("x"), json!([reference, 7])));
        rig.run();
        let result = rig.result("Policy/p");
        let policy = result.documents.policy.as_ref().expect("a policy");
        assert_eq!(policy.targets.len(), 1);
        assert_eq!(policy.targets[0].object, key("HTTPRoute/r"));
        assert_eq!(policy.targets[0].section, None);
    }
    rig.put("Policy/p", spec(json!("x"), json!("r")));
    rig.run();
    assert_eq!(rig.document("Policy/p"), "");
    assert!(message(&rig).ends_with("its targets cannot be read, so nothing is protected"));

    // The module itself refuses it, or forgets what it is for.
    for refuses in [true, false] {
        let mut refused = spec(json!(1), refs.clone());
        refused["none"] = json!(true);
        refused["refuse"] = json!(refuses);
        rig.put("Policy/p", refused);
        rig.run();
        assert!(rig.document("Policy/p").contains("500"));
        assert_eq!(
            conditions(&rig.result("Policy/p")),
            ["Accepted=False Invalid"]
        );
        assert!(message(&rig).contains("answered with 500"));
    }
    rig.put("Policy/p", spec(json!(1), refs));
    rig.run();
    assert_eq!(rig.document("Policy/p"), good);
}

#[test]
fn what_no_module_can_be_given_has_the_host_s_condition() {
    let mut rig = Rig::new();
    let mut large = object("Gateway/g", &[], &json!({}));
    large.problem = Some("it is over 1 MiB".into());
    large.body = Arc::from(&b""[..]);
    rig.put_object(large)
        .put("Policy/unknown", json!({"type": "nobody"}))
        .put("Policy/untyped", json!({"type": 7}));
    assert_eq!(rig.ran(), [""; 0]);
    assert_eq!(
        conditions(&rig.result("Gateway/g")),
        ["Accepted=False Invalid"]
    );
    assert_eq!(
        conditions(&rig.result("Policy/unknown")),
        ["Accepted=False ModuleNotFound"]
    );
    assert!(matches!(
        rig.result("Policy/unknown").state,
        RunState::NoModule(_)
    ));
    assert_eq!(
        conditions(&rig.result("Policy/untyped")),
        ["Accepted=False Invalid"]
    );
}

#[test]
fn the_failure_policy_of_a_module_that_is_not_live_holds() {
    let mut rig = Rig::with(Fake::with_policy(
        Fake::new(Role::Policy).named("kept").live(),
    ));
    let refs = json!([{"group": "chiton.dev", "kind": "API", "name": "a", "sectionName": "s"}]);
    for name in ["kept", "closed", "open"] {
        rig.put(
            &format!("Policy/{name}"),
            json!({"type": name, "targetRefs": refs}),
        );
    }
    rig.run();
    let kept = rig.document("Policy/kept");
    let mut modules = crate::modules::Modules::new(
        [Role::Gateway, Role::Route, Role::Api].map(|role| Arc::new(Fake::new(role).live())),
    );
    modules.add_refused("kept", FailurePolicy::KeepLast, "no such file");
    modules.add_refused("closed", FailurePolicy::FailClosed, "no such file");
    modules.add_refused("open", FailurePolicy::FailOpen, "no such file");
    rig.modules = Arc::new(modules);
    rig.run();
    assert_eq!(rig.document("Policy/kept"), kept);
    assert_eq!(rig.document("Policy/open"), "");
    let closed = rig.result("Policy/closed");
    let policy = closed.documents.policy.as_ref().expect("a policy");
    assert_eq!(policy.targets[0].object, *key("API/a"));
    assert_eq!(policy.targets[0].section.as_deref(), Some("s"));
    for name in ["kept", "closed", "open"] {
        let result = rig.result(&format!("Policy/{name}"));
        assert_eq!(conditions(&result), ["Accepted=False ModuleNotLive"]);
    }
}
