//! Modules come, go and are swapped; candidates are tried first.

use super::super::{RunState, trial};
use super::fake::Fake;
use super::{Rig, conditions, short};
use crate::sandbox::Role;
use serde_json::json;
use std::sync::Arc;

#[test]
fn a_swap_runs_all_objects_of_the_module_in_one_epoch_and_nothing_else() {
    let mut rig = Rig::new();
    for n in 0..20 {
        rig.put(&format!("Policy/p{n:02}"), json!({"type": "policy"}));
    }
    rig.put("Policy/other", json!({"type": "other"}))
        .put("Gateway/g", json!({}));
    rig.run();
    let gateway = rig
        .modules
        .for_kind(&super::role_kind(Role::Gateway))
        .unwrap();
    let rest: Vec<_> = [Role::Route, Role::Api]
        .map(|role| rig.modules.for_kind(&super::role_kind(role)).unwrap())
        .into_iter()
        .chain([gateway])
        .collect();
    let new = Arc::new(Fake::new(Role::Policy).version("2").live());
    rig.modules = Arc::new(crate::modules::Modules::new(rest.into_iter().chain([new])));
    let report = rig.run();
    let ran: Vec<_> = report.ran.iter().map(short).collect();
    let expected: Vec<_> = (0..20).map(|n| format!("Policy/p{n:02}")).collect();
    assert_eq!(ran, expected);
    assert_eq!(report.committed.expect("an epoch").events.len(), 20);
    assert!(rig.document("Policy/p07").contains("v2"));
    assert_eq!(rig.ran(), [""; 0]);
}

#[test]
fn a_policy_finds_its_module_when_it_comes_and_loses_it_when_it_goes() {
    let mut rig = Rig::with(Fake::with_policy(Fake::new(Role::Policy).named("x").live()));
    rig.put("Policy/p", json!({"type": "policy"}));
    assert_eq!(rig.ran(), [""; 0]);
    rig.swap(Fake::all());
    rig.run();
    assert_eq!(
        conditions(&rig.result("Policy/p")),
        ["Accepted=True Accepted"]
    );
    rig.swap(Fake::with_policy(Fake::new(Role::Policy).named("x").live()));
    rig.run();
    assert_eq!(
        conditions(&rig.result("Policy/p")),
        ["Accepted=False ModuleNotFound"]
    );
    assert_eq!(rig.document("Policy/p"), "");
}

#[test]
fn objects_of_a_kind_that_nobody_handles_any_more_lose_their_outputs() {
    let mut rig = Rig::new();
    rig.put("HTTPRoute/r", json!({}))
        .put("API/a", json!({"steps": [{"output": "HTTPRoute/r"}]}));
    rig.run();
    rig.swap(vec![Fake::new(Role::Api).live()]);
    assert_eq!(rig.ran(), ["API/a"]);
    assert!(!rig.has_result("HTTPRoute/r"));
}

#[test]
fn a_version_that_fails_keeps_the_old_version_s_outputs() {
    let mut rig = Rig::new();
    rig.put("Policy/p", json!({"type": "policy"}));
    rig.run();
    let good = rig.document("Policy/p");
    rig.swap(Fake::with_policy(
        Fake::new(Role::Policy).version("2").broken().live(),
    ));
    rig.run();
    assert!(matches!(rig.result("Policy/p").state, RunState::Failed(_)));
    assert_eq!(rig.document("Policy/p"), good);
}

#[test]
fn a_policy_that_changes_its_type_does_not_keep_the_other_module_s_output() {
    let mut modules = Fake::all();
    modules.push(Fake::new(Role::Policy).named("broken").broken().live());
    let mut rig = Rig::with(modules);
    rig.put("Policy/p", json!({"type": "policy"}));
    rig.run();
    rig.put("Policy/p", json!({"type": "broken"}));
    rig.run();
    assert_eq!(rig.document("Policy/p"), "");
}

#[test]
fn a_trial_reports_and_changes_nothing() {
    let mut rig = Rig::new();
    rig.put("Policy/a", json!({"type": "policy"}))
        .put(
            "Policy/b",
            json!({"type": "policy", "steps": [{"fail": "always"}]}),
        )
        .put("Policy/other", json!({"type": "other"}));
    rig.run();
    let world = rig.engine.world().load_full();
    let worse = |candidate: Fake| -> Vec<_> {
        let candidate = Arc::new(candidate.live());
        trial(&world, &candidate, rig.now, 2)
            .iter()
            .map(|tried| (short(&tried.key), tried.worse().is_some()))
            .collect()
    };
    let names = |a, b| [("Policy/a".to_owned(), a), ("Policy/b".to_owned(), b)];
    assert_eq!(
        worse(Fake::new(Role::Policy).version("2")),
        names(false, false)
    );
    assert_eq!(
        worse(Fake::new(Role::Policy).broken()),
        names(true, false),
        "what failed before is no reason"
    );
    let strict = Fake::new(Role::Policy).schema(json!({"type": "object"}));
    assert_eq!(worse(strict), names(false, false));
    assert_eq!(rig.ran(), [""; 0]);
    assert_eq!(rig.engine.world().load().epoch, 1);
}

/// What the trial found out need not be found out again, unless it is not so any more.
#[test]
fn a_swap_takes_the_runs_of_the_trial_that_are_current() {
    let mut rig = Rig::new();
    rig.put("ConfigMap/c", json!({"n": 1}));
    let reader = json!({"type": "policy", "steps": [{"get": "ConfigMap/c"}]});
    rig.put("Policy/changed", json!({"type": "policy", "value": "a"}))
        .put("Policy/reader", reader)
        .put("Policy/same", json!({"type": "policy"}));
    rig.run();
    let version = |version| Fake::new(Role::Policy).version(version).live();
    let mut modules = Fake::with_policy(version("2"));
    let candidate = Arc::new(modules.pop().expect("the policy module"));
    assert_eq!(candidate.role, Role::Policy);
    let tried = trial(&rig.engine.world().load_full(), &candidate, rig.now, 2).len();
    assert_eq!(tried, 3);
    rig.put("ConfigMap/c", json!({"n": 2}))
        .put("Policy/changed", json!({"type": "policy", "value": "b"}))
        .put("Policy/new", json!({"type": "policy"}));
    let modules = modules.into_iter().map(Arc::new).chain([candidate.clone()]);
    rig.modules = Arc::new(crate::modules::Modules::new(modules));
    let ran = rig.ran();
    let swapped: Vec<_> = ran.iter().filter(|it| it.starts_with("Policy/")).collect();
    assert_eq!(swapped, ["Policy/changed", "Policy/new", "Policy/reader"]);
    assert_eq!(candidate.reconciles(), 3 + 3);
    let mut scratch = Rig::with(Fake::with_policy(version("2")));
    let modules = scratch.modules.clone();
    scratch.engine.run(rig.store.snapshot(), modules, rig.now);
    for name in ["changed", "new", "reader", "same"] {
        let name = format!("Policy/{name}");
        assert_eq!(rig.document(&name), scratch.document(&name));
    }
}

#[test]
fn a_candidate_that_refuses_what_was_accepted_is_worse() {
    let mut rig = Rig::new();
    rig.put("Policy/a", json!({"type": "policy", "default": {"n": 1}}));
    rig.run();
    let schema = json!({"properties": {"n": {"type": "string"}}});
    let candidate = Arc::new(Fake::new(Role::Policy).schema(schema).live());
    let tried = trial(&rig.engine.world().load_full(), &candidate, rig.now, 1);
    let why = tried[0].worse().expect("worse");
    assert!(why.contains("spec.default.n"), "{why}");
}
