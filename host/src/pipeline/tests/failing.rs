//! Failures touch their own objects only, and are retried as their cause deserves.

use super::super::metrics::Outcome;
use super::fake::Fake;
use super::{Rig, conditions};
use crate::modules::FailurePolicy;
use crate::pipeline::RunState;
use crate::sandbox::Role;
use serde_json::json;

#[test]
fn a_failure_keeps_the_last_good_output_and_touches_nobody_else() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"value": "good"}))
        .put("Gateway/other", json!({"value": "1"}))
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}));
    rig.run();
    let good = rig.document("Gateway/g");
    rig.put(
        "Gateway/g",
        json!({"steps": [{"get": "ConfigMap/c"}, {"fail": "boom"}]}),
    )
    .put("Gateway/other", json!({"value": "2"}));
    assert_eq!(
        rig.ran(),
        ["Gateway/g", "Gateway/other"],
        "its reader sees no change"
    );
    let result = rig.result("Gateway/g");
    assert_eq!(result.state, RunState::Failed("boom".into()));
    assert_eq!(rig.document("Gateway/g"), good);
    assert_eq!(
        conditions(&result),
        ["Accepted=True Accepted", "Reconciled=False ModuleFailed"]
    );
    assert!(rig.document("Gateway/other").contains('2'));

    rig.later(10_000);
    assert_eq!(rig.ran(), [""; 0], "not tried again by itself");
    rig.put("ConfigMap/c", json!({}));
    assert_eq!(rig.ran(), ["Gateway/g"], "but when what it read changes");
    assert_eq!(rig.metrics.count("gateway", Outcome::ModuleFailed), 2);
    rig.put("Gateway/g", json!({"value": "good"}));
    assert_eq!(rig.ran(), ["Gateway/g"]);
    assert_eq!(rig.result("Gateway/g").state, RunState::Good);
}

#[test]
fn without_a_last_good_output_the_failure_is_said() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"steps": [{"fail": "boom"}]}));
    rig.run();
    assert_eq!(rig.document("Gateway/g"), "");
    assert_eq!(
        conditions(&rig.result("Gateway/g")),
        ["Accepted=False ModuleFailed"]
    );
}

#[test]
fn a_panic_is_confined() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"steps": ["panic"]}))
        .put("Gateway/h", json!({"value": "fine"}));
    rig.run();
    assert!(matches!(
        rig.result("Gateway/g").state,
        RunState::NotReady(_)
    ));
    assert!(rig.document("Gateway/h").contains("fine"));
}

fn targeted(steps: &serde_json::Value) -> serde_json::Value {
    json!({
        "type": "policy",
        "steps": steps,
        "targets": ["HTTPRoute/r"],
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
    })
}

#[test]
fn a_closed_policy_that_never_worked_answers_500() {
    let policy = Fake::new(Role::Policy).live_with(FailurePolicy::FailClosed);
    let mut rig = Rig::with(Fake::with_policy(policy));
    rig.put("Policy/p", targeted(&json!([{"fail": "boom"}])))
        .put(
            "HTTPRoute/r",
            json!({"steps": [{"policies": ["HTTPRoute/r", null]}]}),
        );
    assert_eq!(rig.ran(), ["Policy/p", "HTTPRoute/r"]);
    let closed = rig.document("Policy/p");
    assert!(
        closed.contains(r#""override":[{"respond":{"status":500}}]"#),
        "{closed}"
    );
    assert!(closed.contains(r#""name":"r""#), "{closed}");
    rig.put("Policy/p", targeted(&json!([])));
    assert_eq!(rig.ran(), ["Policy/p", "HTTPRoute/r"]);
    let good = rig.document("Policy/p");
    assert!(!good.contains("500"));
    rig.put("Policy/p", targeted(&json!([{"fail": "again"}])));
    rig.run();
    assert_eq!(
        rig.document("Policy/p"),
        good,
        "the last good output comes first"
    );
}

#[test]
fn an_open_policy_that_never_worked_has_no_effect() {
    let policy = Fake::new(Role::Policy).live_with(FailurePolicy::FailOpen);
    let mut rig = Rig::with(Fake::with_policy(policy));
    rig.put("Policy/p", targeted(&json!([{"fail": "boom"}])));
    rig.run();
    assert_eq!(rig.document("Policy/p"), "");
}

#[test]
fn not_ready_is_retried_with_growing_delays_to_the_deadline() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"value": "1"}));
    rig.run();
    let good = rig.document("Gateway/g");
    rig.put(
        "Gateway/g",
        json!({"steps": [{"get": "ConfigMap/c"}, {"notReady": "no secret"}]}),
    );
    rig.run();
    let started = rig.now;
    let mut runs = 0;
    while let Some(at) = rig.engine.next_wake() {
        rig.now = at.saturating_sub(std::time::Duration::from_millis(1));
        assert_eq!(rig.ran(), [""; 0], "not before its time");
        assert_eq!(
            conditions(&rig.result("Gateway/g")),
            ["Accepted=True Accepted"]
        );
        rig.now = at;
        assert_eq!(rig.ran(), ["Gateway/g"]);
        runs += 1;
    }
    assert!((5..=12).contains(&runs), "{runs}");
    assert!(rig.now.saturating_sub(started).as_secs() >= 60);
    assert_eq!(
        conditions(&rig.result("Gateway/g")),
        ["Accepted=True Accepted", "Reconciled=False NotReady"]
    );
    assert_eq!(rig.document("Gateway/g"), good);
    rig.put("ConfigMap/c", json!({}));
    assert_eq!(rig.ran(), ["Gateway/g"], "what it read wakes it at once");
    assert_eq!(
        conditions(&rig.result("Gateway/g")),
        ["Accepted=True Accepted"]
    );
    assert!(rig.engine.next_wake().is_some(), "and retries start anew");
}

#[test]
fn a_fault_of_the_host_is_retried_for_ever() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"steps": [{"fault": "busy"}]}));
    rig.run();
    for _ in 0..50 {
        rig.now = rig.engine.next_wake().expect("another try");
        assert_eq!(rig.ran(), ["Gateway/g"]);
    }
    assert_eq!(
        conditions(&rig.result("Gateway/g")),
        ["Accepted=False NotReady"]
    );
    rig.delete("Gateway/g");
    rig.run();
    assert_eq!(rig.engine.next_wake(), None);
}

#[test]
fn a_time_that_was_asked_for_wakes_the_object() {
    let mut rig = Rig::new();
    rig.put(
        "Gateway/g",
        json!({"steps": [{"time": 2000}, {"time": 3000}]}),
    );
    rig.run();
    let before = rig.document("Gateway/g");
    assert_eq!(rig.engine.next_wake().map(|at| at.as_secs()), Some(2000));
    rig.later(999);
    assert_eq!(rig.ran(), [""; 0]);
    rig.later(1);
    assert_eq!(rig.ran(), ["Gateway/g"]);
    assert_ne!(rig.document("Gateway/g"), before);
    assert_eq!(rig.engine.next_wake().map(|at| at.as_secs()), Some(3000));
    rig.put("Gateway/g", json!({}));
    rig.run();
    assert_eq!(rig.engine.next_wake(), None);
}
