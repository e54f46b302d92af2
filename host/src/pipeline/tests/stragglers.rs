//! A slow run delays its own object only, and no epoch mixes versions.

use super::super::channel::Event;
use super::fake::{Fake, Gate};
use super::{Rig, key, short};
use crate::sandbox::Role;
use serde_json::json;
use std::sync::Arc;

fn rig(gate: &Arc<Gate>) -> Rig {
    let mut modules = Fake::with_policy(Fake::new(Role::Policy).live());
    modules.retain(|module| module.role != Role::Gateway);
    modules.push(Fake::new(Role::Gateway).gated(gate).live());
    let mut rig = Rig::with(modules);
    // The first epoch waits for everybody.
    rig.put("Gateway/g", json!({"value": "before"}))
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}));
    rig.run();
    rig
}

/// Runs epochs, as the driver does, until no run is outstanding; who ran.
fn rest(rig: &mut Rig) -> Vec<String> {
    let mut ran = Vec::new();
    while rig.engine.has_stragglers() || rig.engine.next_wake().is_some() {
        ran.extend(rig.ran());
        std::thread::yield_now();
    }
    ran
}

#[test]
fn a_straggler_counts_as_unchanged_and_is_taken_when_it_ends() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    rig.put("Gateway/g", json!({"value": "slow"}))
        .put("Gateway/quick", json!({"value": "quick"}));
    let report = rig.run();
    assert_eq!(
        report.stragglers.iter().map(short).collect::<Vec<_>>(),
        ["Gateway/g"]
    );
    assert!(rig.document("Gateway/g").contains("before"));
    assert!(rig.document("Gateway/quick").contains("quick"));
    rig.put("Gateway/quick", json!({"value": "again"}));
    assert_eq!(rig.ran(), ["Gateway/quick"], "others go on");
    gate.open();
    assert_eq!(
        rest(&mut rig),
        ["HTTPRoute/r"],
        "its reader runs, it does not again"
    );
    assert!(rig.document("Gateway/g").contains("slow"));
}

#[test]
fn a_late_result_whose_reads_have_changed_is_not_taken() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    rig.put("ConfigMap/c", json!({"n": 1}));
    rig.put(
        "Gateway/g",
        json!({"value": "slow", "steps": [{"get": "ConfigMap/c"}]}),
    );
    assert_eq!(rig.run().stragglers.len(), 1);
    rig.put("ConfigMap/c", json!({"n": 2}));
    assert_eq!(rig.ran(), [""; 0], "nobody knows yet that it reads this");
    gate.open();
    assert_eq!(rest(&mut rig), ["Gateway/g", "HTTPRoute/r"]);
    let mut scratch = Rig::new();
    scratch.put("ConfigMap/c", json!({"n": 2})).put(
        "Gateway/g",
        json!({"value": "slow", "steps": [{"get": "ConfigMap/c"}]}),
    );
    scratch.run();
    assert_eq!(rig.document("Gateway/g"), scratch.document("Gateway/g"));
}

#[test]
fn an_object_never_runs_twice_at_once_and_its_newest_form_wins() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    rig.put("Gateway/g", json!({"value": "slow"}));
    rig.run();
    rig.put("Gateway/g", json!({"value": "newest"}));
    assert_eq!(rig.ran(), [""; 0], "it runs already");
    gate.open();
    assert_eq!(rest(&mut rig), ["Gateway/g", "HTTPRoute/r"]);
    assert!(rig.document("Gateway/g").contains("newest"));
}

#[test]
fn a_straggler_that_is_deleted_leaves_nothing() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    rig.put("Gateway/g", json!({"value": "slow"}));
    rig.run();
    rig.delete("Gateway/g");
    assert_eq!(rig.ran(), ["HTTPRoute/r"]);
    gate.open();
    rest(&mut rig);
    assert!(!rig.has_result("Gateway/g"));
}

/// Somebody may ask whether it exists: a policy whose target it is.
#[test]
fn a_straggler_is_told_of_when_it_comes_and_when_it_goes_without_a_result() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    rig.put("Gateway/new", json!({"value": "slow"}));
    let event = |event| [("Gateway/new".to_owned(), event)];
    assert_eq!(rig.events(), event(Event::Create));
    rig.delete("Gateway/new");
    assert_eq!(rig.events(), event(Event::Delete));
    gate.open();
    rest(&mut rig);
    assert!(!rig.has_result("Gateway/new"));
}

/// A reader that folds must not take its going for something that it never heard of.
#[test]
fn a_late_first_result_is_an_update() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    rig.put("Gateway/new", json!({"value": "slow"}));
    let event = |event| ("Gateway/new".to_owned(), event);
    assert_eq!(rig.events(), [event(Event::Create)]);
    gate.open();
    let mut told = Vec::new();
    while rig.engine.has_stragglers() || rig.engine.next_wake().is_some() {
        told.extend(rig.events());
        std::thread::yield_now();
    }
    assert_eq!(told, [event(Event::Update)]);
    rig.delete("Gateway/new");
    assert_eq!(rig.events(), [event(Event::Delete)]);
}

#[test]
fn a_module_that_hangs_does_not_take_all_threads() {
    let gate = Arc::new(Gate::default());
    let mut rig = rig(&gate);
    for n in 0..10 {
        rig.put(&format!("Gateway/slow{n}"), json!({"value": "slow"}));
    }
    rig.run();
    rig.put("Policy/p", json!({"type": "policy", "value": "quick"}));
    rig.run();
    assert!(rig.document("Policy/p").contains("quick"));
    gate.open();
    rest(&mut rig);
    for n in 0..10 {
        assert!(rig.has_result(&format!("Gateway/slow{n}")));
    }
    assert!(
        rig.engine
            .world()
            .load()
            .outputs
            .get(&key("Gateway/g"))
            .is_some()
    );
}
