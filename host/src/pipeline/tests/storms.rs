//! Under a storm of changes batches grow with the backlog, and nobody is overtaken for ever.

use super::super::testing::Driven;
use super::fake::{Fake, Gate};
use super::{Rig, key, short};
use crate::sandbox::Role;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn what_does_not_fit_into_an_epoch_goes_on_in_the_next_oldest_first() {
    let mut rig = Rig::new();
    rig.run();
    rig.engine.options.batch = 2;
    // The last one by name is the oldest.
    rig.put("Gateway/z", json!({}))
        .put("Gateway/y", json!({}))
        .put("Gateway/x", json!({}));
    assert_eq!(rig.ran(), ["Gateway/x", "Gateway/y"]);
    for number in 0..5 {
        // Two new ones an epoch would keep it waiting for ever.
        rig.put(&format!("Gateway/a{number}"), json!({}))
            .put(&format!("Gateway/b{number}"), json!({}));
        let ran = rig.ran();
        assert_eq!(ran.len(), 2);
        assert_eq!(
            ran.contains(&"Gateway/z".to_owned()),
            number == 0,
            "{ran:?}"
        );
    }
    let mut rest = BTreeSet::new();
    while rig.engine.next_wake() == Some(Duration::ZERO) {
        let ran = rig.ran();
        assert!(ran.len() <= 2);
        rest.extend(ran);
    }
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rig.metrics.waits(), 13);
}

#[test]
fn waiting_is_measured_once_for_each_object_that_is_taken_up() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({}))
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}))
        .put("Service/s", json!({}));
    rig.engine.arrived(&rig.store.feed().take());
    rig.run();
    assert_eq!(
        rig.metrics.waits(),
        3,
        "what runs and what the host follows"
    );
    rig.run();
    assert_eq!(rig.metrics.waits(), 3);
    rig.put("Gateway/g", json!({"value": "2"}));
    rig.engine.arrived(&rig.store.feed().take());
    rig.run();
    assert_eq!(rig.metrics.waits(), 5, "and who read it");
}

#[test]
fn a_module_that_has_no_thread_left_keeps_no_epoch_waiting() {
    let gate = Arc::new(Gate::default());
    let mut modules = Fake::with_policy(Fake::new(Role::Policy).live());
    modules.retain(|module| module.role != Role::Gateway);
    modules.push(Fake::new(Role::Gateway).gated(&gate).live());
    let mut rig = Rig::with(modules);
    rig.run();
    for number in 0..10 {
        rig.put(&format!("Gateway/slow{number}"), json!({"value": "slow"}));
    }
    let report = rig.run();
    assert_eq!(report.stragglers.len(), 2, "as many as may run at once");
    // Whoever waited for one of them now would wait for ever.
    rig.engine.options.straggler = Duration::from_hours(1);
    assert_eq!(rig.ran(), [""; 0], "what was left is held");
    rig.put("Policy/p", json!({"type": "policy"}));
    assert_eq!(rig.ran(), ["Policy/p"]);
    rig.put("Gateway/new", json!({"value": "slow"}));
    assert_eq!(rig.ran(), [""; 0]);
    assert_eq!(
        rig.engine.next_wake(),
        None,
        "and nobody turns round and round"
    );
    gate.open();
    while rig.engine.has_stragglers() || rig.engine.next_wake().is_some() {
        rig.run();
        std::thread::yield_now();
    }
    for number in 0..10 {
        assert!(rig.has_result(&format!("Gateway/slow{number}")));
    }
    assert!(rig.has_result("Gateway/new"));
    assert_eq!(rig.metrics.waits(), 12);
}

/// While an epoch runs, all that comes is folded into one next epoch, however much it is; the first
/// change does not wait for it.
#[tokio::test]
async fn batches_grow_with_the_backlog() {
    let gate = Arc::new(Gate::default());
    let mut modules = Fake::with_policy(Fake::new(Role::Policy).live());
    modules.retain(|module| module.role != Role::Gateway);
    modules.push(Fake::new(Role::Gateway).gated(&gate).live());
    let mut rig = Rig::with(modules);
    rig.run();
    rig.engine.options.straggler = Duration::from_hours(1);
    let (metrics, store) = (rig.metrics.clone(), Arc::new(rig.store));
    let before = metrics.epochs();
    let put = |name: &str, spec| {
        let object = super::object(name, &[], &spec);
        store.commit(&[crate::store::Change::Put(Arc::new(object))]);
    };
    let driven = Driven::start(&store, rig.engine, rig.modules);
    put("Gateway/first", json!({"value": "slow"}));
    // It has been started when its thread waits at the gate.
    while !gate.is_reached() {
        tokio::task::yield_now().await;
    }
    for number in 0..500 {
        put(
            &format!("Policy/p{}", number % 100),
            json!({"type": "policy", "value": number.to_string()}),
        );
    }
    assert_eq!(metrics.epochs(), before, "one epoch runs");
    gate.open();
    let mut seen = BTreeSet::new();
    while seen.len() < 101 {
        seen.extend(driven.events.next().await.events.keys().map(short));
    }
    assert_eq!(
        metrics.epochs(),
        before + 2,
        "500 changes of 100 objects in one epoch"
    );
    assert!(seen.contains(&short(&key("Gateway/first"))));
    driven.end().await;
}
