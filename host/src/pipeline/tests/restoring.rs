//! Good results outlive a restart: an engine starts with what another one saved.

use super::fake::{Fake, Gate};
use super::{Rig, conditions, key};
use crate::modules::FailurePolicy;
use crate::pipeline::{RunState, Saved};
use crate::sandbox::Role;
use crate::store::Key;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// What a checkpoint holds of a rig.
fn saved(rig: &Rig) -> Vec<(Key, Saved)> {
    let world = rig.engine.world().load_full();
    let saved = world.good().map(|(key, result)| {
        let saved = Saved {
            module: result.module.clone(),
            generation: result.generation,
            conditions: result.conditions.to_vec(),
            documents: result.documents.json.clone(),
        };
        (key.clone(), saved)
    });
    saved.collect()
}

fn names(saved: &[(Key, Saved)]) -> Vec<&str> {
    saved.iter().map(|(key, _)| key.name.as_str()).collect()
}

#[test]
fn a_run_that_fails_after_a_restart_falls_back_on_what_was_good_before() {
    let mut before = Rig::new();
    before.put("Gateway/g", json!({"value": "good"}));
    before.run();
    let good = before.document("Gateway/g");
    before.put("Gateway/g", json!({"steps": [{"fail": "broken"}]}));
    before.run();
    let kept = saved(&before);
    assert_eq!(names(&kept), ["g"]);

    // Once more, since it is still broken.
    let mut results = kept;
    for _ in 0..2 {
        let mut rig = Rig::new();
        rig.engine.restore(results);
        rig.put("Gateway/g", json!({"steps": [{"fail": "broken"}]}));
        rig.put("Gateway/other", json!({"steps": [{"fail": "broken"}]}));
        rig.run();
        assert_eq!(rig.document("Gateway/g"), good);
        assert_eq!(rig.result("Gateway/g"), before.result("Gateway/g"));
        assert_eq!(rig.document("Gateway/other"), "");
        results = saved(&rig);
        assert_eq!(names(&results), ["g"]);
    }

    let mut rig = Rig::new();
    rig.engine.restore(results);
    rig.put("Gateway/g", json!({"value": "mended"}));
    rig.run();
    assert!(rig.document("Gateway/g").contains("mended"));
    rig.put("Gateway/g", json!({"steps": [{"fail": "broken"}]}));
    rig.run();
    assert!(
        rig.document("Gateway/g").contains("mended"),
        "the newest good result counts"
    );
}

#[test]
fn what_was_good_and_broke_while_nobody_watched_is_kept_too() {
    let mut before = Rig::new();
    before.put("Gateway/g", json!({"value": "good"}));
    before.put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}));
    before.run();
    let mut rig = Rig::new();
    rig.engine.restore(saved(&before));
    rig.put("Gateway/g", json!({"steps": [{"notReady": "soon"}]}));
    rig.put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}));
    rig.run();
    for name in ["Gateway/g", "HTTPRoute/r"] {
        assert_eq!(rig.document(name), before.document(name));
    }
    assert_eq!(
        rig.result("HTTPRoute/r"),
        before.result("HTTPRoute/r"),
        "it read what is kept"
    );
}

#[test]
fn what_was_deleted_meanwhile_leaves_nothing_and_what_is_not_listed_is_not_deleted() {
    let mut before = Rig::new();
    before.put("Gateway/gone", json!({"value": "good"}));
    before.put("Gateway/stays", json!({"value": "good"}));
    before.run();

    let mut rig = Rig::unsynced(Fake::all());
    rig.engine.restore(saved(&before));
    rig.put("Gateway/stays", json!({"steps": [{"fail": "broken"}]}));
    rig.run();
    rig.put("Gateway/gone", json!({"steps": [{"fail": "broken"}]}));
    rig.run();
    assert!(rig.document("Gateway/gone").contains("good"));

    let mut rig = Rig::new();
    rig.engine.restore(saved(&before));
    rig.put("Gateway/stays", json!({"steps": [{"fail": "broken"}]}));
    rig.run();
    assert!(!rig.has_result("Gateway/gone"));
    rig.put("Gateway/gone", json!({"steps": [{"fail": "broken"}]}));
    rig.run();
    assert_eq!(rig.document("Gateway/gone"), "", "it is another object");
}

#[test]
fn another_module_and_a_document_that_cannot_be_read_give_no_fallback() {
    let mut before = Rig::new();
    before.put("Policy/p", json!({"type": "policy", "value": "good"}));
    before.run();
    for (module, damage) in [("other", false), ("policy", true)] {
        let mut results = saved(&before);
        for (_, saved) in &mut results {
            module.clone_into(&mut saved.module);
            if damage {
                saved.documents[0].1 = Arc::from(&b"{\"unknown\": 1}"[..]);
            }
        }
        let mut rig = Rig::new();
        rig.engine.restore(results);
        rig.put(
            "Policy/p",
            json!({"type": "policy", "steps": [{"fail": "broken"}]}),
        );
        rig.run();
        assert_eq!(rig.document("Policy/p"), "");
        assert_eq!(
            conditions(&rig.result("Policy/p")),
            ["Accepted=False ModuleFailed"]
        );
    }
}

/// A rig whose gateway and policy modules do not answer before the gate opens, and which does not
/// wait for them.
fn stuck(gate: &Arc<Gate>) -> Rig {
    let policy = Fake::new(Role::Policy).gated(gate);
    let mut modules = Fake::with_policy(policy.live_with(FailurePolicy::FailClosed));
    modules.retain(|module| module.role != Role::Gateway);
    modules.push(Fake::new(Role::Gateway).gated(gate).live());
    let mut rig = Rig::with(modules);
    rig.engine.options.first.0 = Duration::from_millis(50);
    rig
}

#[test]
fn a_run_that_outlasts_the_first_epoch_takes_nothing_from_its_object() {
    let mut before = Rig::new();
    before.put("Gateway/g", json!({"value": "slow"}));
    before.run();
    let gate = Arc::new(Gate::default());
    let mut rig = stuck(&gate);
    rig.engine.restore(saved(&before));
    rig.put("Gateway/g", json!({"value": "slow"}));
    rig.put("Gateway/new", json!({"value": "slow"}));
    let targets = json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}]);
    rig.put(
        "Policy/p",
        json!({"type": "policy", "value": "slow", "targetRefs": targets}),
    );
    assert_eq!(rig.run().stragglers.len(), 3);
    assert_eq!(rig.document("Gateway/g"), before.document("Gateway/g"));
    assert!(!rig.has_result("Gateway/new"));
    let closed = rig.result("Policy/p");
    assert!(matches!(closed.state, RunState::NotReady(_)));
    assert!(
        rig.document("Policy/p").contains("\"status\":500"),
        "a closed policy does not start as an open one"
    );

    gate.open();
    while rig.engine.has_stragglers() {
        rig.run();
        std::thread::yield_now();
    }
    for name in ["Gateway/g", "Gateway/new", "Policy/p"] {
        assert_eq!(rig.result(name).state, RunState::Good, "{}", key(name));
    }
    assert_eq!(rig.result("Gateway/g"), before.result("Gateway/g"));
}
