//! Random histories.

use super::envoy::Envoy;
use super::host::{Host, options};
use super::manifests::{Does, Fault, Listener, Rule, Scope, Spec, Thing, key};
use super::oracle::{Oracle, module};
use super::serving::{Serving, requests};
use super::spy::{Call, MODULES, Version};
use super::strategies::{Op, op};
use crate::store::Key;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A host and the oracle beside it.
struct History {
    host: Host,
    oracle: Oracle,
    /// The last call for each object.
    calls: BTreeMap<Key, Call>,
}

/// What every history starts with, so that changes are about something.
fn start() -> Vec<(Key, Thing)> {
    let listener = |name, hostname| Listener {
        name,
        port: 8000,
        hostname,
        scope: Scope::All,
    };
    let gateway = Spec::Gateway(vec![
        listener("l0", None),
        listener("l1", Some("a.example")),
    ]);
    let route = Spec::Route {
        parents: vec![("g0", None)],
        hostnames: vec!["a.example"],
        rules: vec![Rule {
            path: "/",
            named: true,
            backend: ("default", "s0"),
        }],
    };
    vec![
        (key("GatewayClass", "", "chiton"), Spec::Class.into()),
        (
            key("Namespace", "", "default"),
            Spec::Namespace(None).into(),
        ),
        (
            key("Namespace", "", "team"),
            Spec::Namespace(Some("a")).into(),
        ),
        (key("Gateway", "default", "g0"), gateway.into()),
        (key("HTTPRoute", "default", "r0"), route.into()),
        (key("Service", "default", "s0"), Spec::Service(80).into()),
        (
            key("EndpointSlice", "default", "s0"),
            Spec::Slice("s0", 1).into(),
        ),
        (key("Secret", "default", "k0"), Spec::Secret(0).into()),
    ]
}

impl History {
    fn new(options: crate::pipeline::Options) -> Self {
        let mut history = Self {
            host: Host::new(options),
            oracle: Oracle::default(),
            calls: BTreeMap::new(),
        };
        history.oracle.versions = history.host.versions.clone();
        for (key, thing) in start() {
            history.put(&key, thing);
        }
        history
    }

    fn put(&mut self, key: &Key, thing: Thing) {
        self.host.put(key, &thing);
        self.oracle.things.insert(key.clone(), thing);
    }

    /// Applies a change of the world; epochs are the caller's.
    fn take(&mut self, op: &Op) {
        match op {
            Op::Put(key, thing) => self.put(key, thing.clone()),
            Op::Delete(key) => {
                self.host.delete(key);
                self.oracle.things.remove(key);
            }
            Op::Swap(name, version) => {
                self.host.swap(name, version.clone());
                self.oracle.versions.insert(name, version.clone());
            }
            Op::Epoch(_) => {}
        }
    }

    /// Runs an epoch and checks who ran (L3) and, if the synchronizer reads, what is served (L2).
    fn epoch(&mut self, reads: bool) {
        let calls = self.host.epoch();
        self.check_calls(calls);
        self.oracle.epoch();
        if reads {
            self.host.synchronize();
            self.check_served();
        }
    }

    /// Each object was called once if what its last call saw is not so any more, or if there was
    /// none; else not at all.
    fn check_calls(&mut self, calls: Vec<Call>) {
        let world = self.host.world();
        let things = &self.oracle.things;
        let versions = &self.oracle.versions;
        let owner = |key: &Key| {
            let spec = &things.get(key)?.spec;
            let is_asked = !matches!(
                spec,
                Spec::Policy {
                    does: Does::Mistake,
                    ..
                }
            );
            module(spec).filter(|_| is_asked)
        };
        self.calls.retain(|key, _| owner(key).is_some());
        let due: BTreeSet<Key> = things
            .keys()
            .filter(|key| {
                let Some(module) = owner(key) else {
                    return false;
                };
                !self.calls.get(key).is_some_and(|call| {
                    call.module == (module.to_owned(), versions[module].number)
                        && call.is_current(&world)
                        && !self.host.swapped.contains(module)
                })
            })
            .cloned()
            .collect();
        let called: Vec<&Key> = calls.iter().map(|call| &call.object.key).collect();
        let once: BTreeSet<Key> = called.iter().map(|key| (*key).clone()).collect();
        assert_eq!(
            called.len(),
            once.len(),
            "somebody was called twice: {called:?}"
        );
        assert_eq!(once, due, "who was called, and who had to be");
        for call in calls {
            self.calls.insert(call.object.key.clone(), call);
        }
        self.host.swapped.clear();
    }

    /// Every request is answered as the oracle says.
    fn check_served(&self) {
        let serving = Serving::of(&self.oracle);
        let envoy = Envoy::with(&self.host.proxies);
        for request in requests() {
            let (found, expected) = (envoy.answer(&request), serving.answer(&request));
            assert_eq!(found, expected, "{request:?}\n{:#?}", self.oracle.things);
        }
        // A cluster goes with the last route that names it, also where a policy answers instead.
        let named = serving.clusters();
        let unused = envoy.unused_clusters();
        assert!(unused.is_subset(&named), "{unused:?} is left over");
    }

    /// Repairs all that fails.
    fn heal(&mut self) {
        for (key, mut thing) in self.oracle.things.clone() {
            if thing.fault != Fault::None {
                thing.fault = Fault::None;
                self.put(&key, thing);
            }
        }
        for name in MODULES {
            let version = self.oracle.versions[name].clone();
            if !version.breaks.is_empty() {
                let version = Version {
                    breaks: BTreeSet::new(),
                    ..version
                };
                self.take(&Op::Swap(name, version));
            }
        }
    }

    /// A host that gets the final state in another order, with detours, or at once.
    fn other(&self, order: &[u8], at_once: bool) -> Host {
        let mut host = Host::new(options());
        for (name, version) in &self.oracle.versions {
            if at_once {
                host.swap(name, version.clone());
            }
        }
        let mut things: Vec<_> = self.oracle.things.iter().collect();
        let order = |index: usize| order.get(index).copied().unwrap_or_default();
        let mut index = 0;
        things.sort_by_key(|_| {
            index += 1;
            order(index)
        });
        for (at, (key, thing)) in things.iter().enumerate() {
            if !at_once && order(at).is_multiple_of(3) {
                // Something else was there before, and perhaps it was served.
                let mut before = (*thing).clone();
                before.age = 9;
                host.put(key, &before);
                if order(at).is_multiple_of(2) {
                    host.epoch();
                    host.synchronize();
                }
                if order(at).is_multiple_of(9) {
                    host.delete(key);
                }
            }
            host.put(key, thing);
            if !at_once && order(at).is_multiple_of(4) {
                host.epoch();
            }
        }
        for (name, version) in &self.oracle.versions {
            if !at_once {
                host.epoch();
                host.swap(name, version.clone());
            }
        }
        host.rest();
        host
    }

    /// Hosts with the same inputs serve and say the same (L8), and so does one that saw the final
    /// state only (L2, to the byte).
    fn check_agreement(&self, order: &[u8]) {
        for other in [self.other(order, true), self.other(order, false)] {
            assert_eq!(self.host.served(), other.served());
            assert!(
                self.host.proxies == other.proxies,
                "equal versions, other contents"
            );
            assert_eq!(self.host.findings, other.findings);
            let (one, two) = (self.host.world(), other.world());
            assert!(one.outputs.iter().eq(two.outputs.iter()));
        }
    }
}

/// L2 and L3 after each epoch, also while objects and modules fail; L8 once all is well.
fn laws_hold(ops: &[Op], order: &[u8]) {
    let mut history = History::new(options());
    for op in ops {
        match op {
            Op::Epoch(reads) => history.epoch(*reads),
            op => history.take(op),
        }
    }
    history.epoch(true);
    history.heal();
    history.epoch(true);
    history.check_agreement(order);
}

/// Runs outlast their epochs, and what is left over goes on in later ones; at rest it is as if none
/// had.
fn stragglers_make_no_difference(ops: &[Op], order: &[u8], batch: usize) {
    let mut history = History::new(crate::pipeline::Options {
        straggler: Duration::from_micros(50),
        batch,
        ..options()
    });
    for op in ops {
        match op {
            Op::Epoch(reads) => {
                history.host.epoch();
                if *reads {
                    history.host.synchronize();
                }
            }
            op => history.take(op),
        }
    }
    history.heal();
    history.host.rest();
    history.oracle.epoch();
    history.check_served();
    history.check_agreement(order);
}

fn ops(faults: bool) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(faults), 1..50)
}

fn order() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_after_every_epoch(ops in ops(true), order in order()) {
        laws_hold(&ops, &order);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn stragglers_and_left_overs_make_no_difference(
        ops in ops(false),
        order in order(),
        batch in 1..6usize,
    ) {
        stragglers_make_no_difference(&ops, &order, batch);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "soak"]
    fn the_laws_hold_after_every_epoch_of_many(ops in ops(true), order in order()) {
        laws_hold(&ops, &order);
    }

    #[test]
    #[ignore = "soak"]
    fn stragglers_and_left_overs_of_many_make_no_difference(
        ops in ops(false),
        order in order(),
        batch in 1..6usize,
    ) {
        stragglers_make_no_difference(&ops, &order, batch);
    }
}
