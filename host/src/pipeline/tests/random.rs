//! Random histories over random graphs: what was computed step by step is what a computation from
//! scratch gives, and nothing ran without a reason.

use super::Rig;
use super::fake::{Fake, Step};
use crate::pipeline::{Engine, Metrics, RunState};
use crate::sandbox::Role;
use crate::store::Key;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const NAMES: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Put(String, Vec<(String, String)>, Value),
    Delete(String),
    /// Another version of a role's module.
    Swap(Role, u8),
    /// An epoch ends here.
    Epoch,
}

fn name(kind: &'static str) -> impl Strategy<Value = String> {
    (0..NAMES).prop_map(move |n| format!("{kind}/{n}"))
}

fn label() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop_oneof![
        Just(BTreeMap::new()),
        "[ab]".prop_map(|value| BTreeMap::from([("app".to_owned(), value)])),
    ]
}

fn input_step() -> BoxedStrategy<Step> {
    prop_oneof![
        name("ConfigMap").prop_map(Step::Get),
        name("ConfigMap").prop_map(Step::Follow),
        label().prop_map(Step::List),
    ]
    .boxed()
}

fn step(role: Role, failing: bool) -> BoxedStrategy<Step> {
    let section = prop_oneof![Just(None), Just(Some("s".to_owned()))];
    let policies =
        (name("HTTPRoute"), section).prop_map(|(target, section)| Step::Policies(target, section));
    let reads = match role {
        Role::Gateway | Role::Policy => input_step(),
        Role::Route => prop_oneof![
            input_step(),
            name("Gateway").prop_map(Step::Output),
            name("Policy").prop_map(Step::Output),
            policies,
        ]
        .boxed(),
        Role::Api => prop_oneof![
            input_step(),
            name("Gateway").prop_map(Step::Output),
            name("HTTPRoute").prop_map(Step::Output),
            policies,
        ]
        .boxed(),
    };
    if !failing {
        return reads;
    }
    prop_oneof![
        6 => reads,
        1 => Just(Step::Fail("broken".into())),
        1 => Just(Step::NotReady("wait".into())),
    ]
    .boxed()
}

fn owned(role: Role, failing: bool) -> BoxedStrategy<Op> {
    let kind = match role {
        Role::Gateway => "Gateway",
        Role::Policy => "Policy",
        Role::Route => "HTTPRoute",
        Role::Api => "API",
    };
    let targets = prop::collection::vec(
        prop_oneof![name("HTTPRoute"), name("HTTPRoute").prop_map(|n| n + "#s")],
        0..3,
    );
    let steps = prop::collection::vec(step(role, failing), 0..4);
    let policy_type = prop_oneof![4 => Just("policy"), 1 => Just("nobody")];
    (
        name(kind),
        steps,
        targets,
        any::<bool>(),
        policy_type,
        0..3u8,
    )
        .prop_map(|(name, steps, targets, deaf, policy_type, value)| {
            let spec = json!({
                "type": policy_type,
                "steps": steps,
                "targets": targets,
                "deaf": deaf,
                "value": value.to_string(),
            });
            Op::Put(name, Vec::new(), spec)
        })
        .boxed()
}

fn op(failing: bool) -> BoxedStrategy<Op> {
    let input = (name("ConfigMap"), label(), name("ConfigMap"), 0..2u8).prop_map(
        |(name, labels, next, n)| {
            Op::Put(
                name,
                labels.into_iter().collect(),
                json!({"next": next, "n": n}),
            )
        },
    );
    let any_name = prop_oneof![
        name("ConfigMap"),
        name("Gateway"),
        name("Policy"),
        name("HTTPRoute"),
        name("API")
    ];
    let role = prop_oneof![
        Just(Role::Gateway),
        Just(Role::Policy),
        Just(Role::Route),
        Just(Role::Api)
    ];
    prop_oneof![
        4 => input,
        2 => owned(Role::Gateway, failing),
        3 => owned(Role::Policy, failing),
        3 => owned(Role::Route, failing),
        3 => owned(Role::Api, failing),
        3 => any_name.prop_map(Op::Delete),
        1 => (role, 1..3u8).prop_map(|(role, version)| Op::Swap(role, version)),
        6 => Just(Op::Epoch),
    ]
    .boxed()
}

struct History {
    rig: Rig,
    versions: BTreeMap<Role, u8>,
    /// Whether a module was swapped since the last epoch, which is a reason for a run of its own.
    swapped: bool,
}

impl History {
    fn new() -> Self {
        let versions = [Role::Gateway, Role::Policy, Role::Route, Role::Api]
            .map(|role| (role, 1))
            .into();
        Self {
            rig: Rig::new(),
            versions,
            swapped: false,
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(name, labels, spec) => {
                let labels: Vec<_> = labels.iter().map(|(k, v)| (&**k, &**v)).collect();
                self.rig.put_labelled(name, &labels, spec);
            }
            Op::Delete(name) => {
                self.rig.delete(name);
            }
            Op::Swap(role, version) => {
                self.versions.insert(*role, *version);
                self.swapped = true;
                let modules = self
                    .versions
                    .iter()
                    .map(|(role, version)| Fake::new(*role).version(&version.to_string()).live());
                self.rig.swap(modules.collect());
            }
            Op::Epoch => self.epoch(),
        }
    }

    /// Runs an epoch and checks that whoever ran had a reason: its own form or what it read is
    /// another one, which shows in its document unless it is deaf.
    fn epoch(&mut self) {
        let before = self.rig.engine.world().load_full();
        let report = self.rig.run();
        let after = self.rig.engine.world().load_full();
        if std::mem::take(&mut self.swapped) {
            return;
        }
        let changes = before.inputs.diff(&after.inputs).objects;
        let policies = changes.iter().filter(|change| change.key.kind == "Policy");
        // One may have come to say what another said that went: who reads them runs, and sees what
        // it saw before.
        let policies_traded = policies.count() > 1;
        for key in &report.ran {
            let (old, new) = (before.inputs.get(key), after.inputs.get(key));
            let same_form = matches!((old, new), (Some(a), Some(b)) if a.same_content(b));
            let deaf = new.is_some_and(|object| {
                String::from_utf8_lossy(&object.body).contains("\"deaf\":true")
            });
            let failing = |world: &super::super::World| {
                world
                    .outputs
                    .get(key)
                    .is_some_and(|r| r.state != RunState::Good)
            };
            let unknown = deaf || policies_traded || failing(&before) || failing(&after);
            assert!(
                !same_form || unknown || before.outputs.get(key) != after.outputs.get(key),
                "{key} ran without a reason"
            );
        }
    }

    /// Runs epochs, as the driver does, until no run is outstanding.
    fn rest(&mut self) {
        self.rig.run();
        while self.rig.engine.has_stragglers() || self.rig.engine.next_wake().is_some() {
            self.rig.run();
            std::thread::yield_now();
        }
    }

    fn scratch(&self) -> Engine {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let mut engine = Engine::new(super::options(), metrics).unwrap();
        let snapshot = self.rig.store.snapshot();
        engine.run(snapshot, self.rig.modules.clone(), self.rig.now);
        engine
    }

    fn results(engine: &Engine) -> BTreeMap<Key, super::super::Reconciled> {
        let world = engine.world().load_full();
        world
            .outputs
            .iter()
            .map(|(key, result)| (key.clone(), result.as_ref().clone()))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_is_from_scratch(ops in prop::collection::vec(op(false), 1..60)) {
        let mut history = History::new();
        for op in &ops {
            history.apply(op);
        }
        history.epoch();
        prop_assert_eq!(
            History::results(&history.rig.engine),
            History::results(&history.scratch())
        );
    }

    /// Runs may end in any later epoch, with whatever has changed meanwhile.
    #[test]
    fn stragglers_make_no_difference(ops in prop::collection::vec(op(false), 1..60)) {
        let mut history = History::new();
        history.epoch();
        history.rig.engine.options.straggler = Duration::from_micros(20);
        for op in &ops {
            match op {
                Op::Epoch => drop(history.rig.run()),
                op => history.apply(op),
            }
        }
        history.rest();
        prop_assert_eq!(
            History::results(&history.rig.engine),
            History::results(&history.scratch())
        );
    }

    /// With failures, once every failing object is repaired, nothing of them is left.
    #[test]
    fn failures_leave_no_trace(
        ops in prop::collection::vec(op(true), 1..60),
        repair in prop::collection::vec(op(false), 1..10),
    ) {
        let mut history = History::new();
        for op in &ops {
            history.apply(op);
        }
        history.epoch();
        let failing: Vec<Key> = History::results(&history.rig.engine)
            .into_iter()
            .filter(|(_, result)| {
                matches!(result.state, RunState::Failed(_) | RunState::NotReady(_))
            })
            .map(|(key, _)| key)
            .collect();
        for key in failing {
            let spec = json!({"type": "policy", "value": "repaired"});
            history.rig.put(&super::short(&key), spec);
        }
        for op in &repair {
            history.apply(op);
        }
        history.epoch();
        prop_assert_eq!(
            History::results(&history.rig.engine),
            History::results(&history.scratch())
        );
        for kind in ["Gateway", "Policy", "HTTPRoute", "API", "ConfigMap"] {
            for n in 0..NAMES {
                history.rig.delete(&format!("{kind}/{n}"));
            }
        }
        history.epoch();
        prop_assert_eq!(history.rig.engine.index.size(), 0);
        prop_assert!(History::results(&history.rig.engine).is_empty());
    }
}
