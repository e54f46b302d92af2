//! Random changes of a world that is so small that they meet.

use super::manifests::{Does, Fault, Listener, Rule, Scope, Spec, Target, Thing, key};
use super::spy::Version;
use crate::store::Key;
use proptest::prelude::*;
use proptest::sample::select;

/// One step of a history.
#[derive(Clone, Debug)]
pub enum Op {
    Put(Key, Thing),
    Delete(Key),
    /// Another version of a module goes live.
    Swap(&'static str, Version),
    /// An epoch; whether the synchronizer reads after it.
    Epoch(bool),
}

const NAMESPACES: &[&str] = &["default", "team"];
const GATEWAYS: &[&str] = &["g0", "g1"];
const LISTENERS: &[&str] = &["l0", "l1"];
const ROUTES: &[&str] = &["r0", "r1", "r2"];
const POLICIES: &[&str] = &["p0", "p1", "p2", "p3"];
const APIS: &[&str] = &["a0", "a1"];
const SERVICES: &[&str] = &["s0", "s1"];
const SECRETS: &[&str] = &["k0", "k1"];

const HOSTNAMES: &[&[&str]] = &[
    &[],
    &["a.example"],
    &["a.example"],
    &["b.example"],
    &["*.example"],
    &["a.example", "c.test"],
];

/// Mostly the first, so that objects are about each other.
fn one(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> + Clone {
    prop_oneof![2 => Just(names[0]), 3 => select(names)]
}

fn namespace() -> impl Strategy<Value = &'static str> + Clone {
    prop_oneof![3 => Just("default"), 1 => Just("team")]
}

fn optional(names: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![2 => Just(None), 1 => select(names).prop_map(Some)]
}

fn namespaces() -> impl Strategy<Value = (Key, Spec)> {
    (select(NAMESPACES), optional(&["a", "b"]))
        .prop_map(|(name, tier)| (key("Namespace", "", name), Spec::Namespace(tier)))
}

fn gateway() -> impl Strategy<Value = (Key, Spec)> {
    let scope = select(
        &[
            Scope::All,
            Scope::All,
            Scope::Same,
            Scope::TierA,
            Scope::AnyTier,
            Scope::NotTierB,
        ][..],
    );
    let first = (
        select(&[8000, 8001][..]),
        optional(&["*.example"]),
        scope.clone(),
    )
        .prop_map(|(port, hostname, scope)| Listener {
            name: "l0",
            port,
            hostname,
            scope,
        });
    let second = (select(&[8000, 8001][..]), scope).prop_map(|(port, scope)| Listener {
        name: "l1",
        port,
        hostname: Some("a.example"),
        scope,
    });
    (one(GATEWAYS), first, prop::option::of(second)).prop_map(|(name, first, second)| {
        let listeners = [Some(first), second].into_iter().flatten().collect();
        (key("Gateway", "default", name), Spec::Gateway(listeners))
    })
}

fn route() -> impl Strategy<Value = (Key, Spec)> {
    let parents = (
        prop_oneof![1 => Just(None), 4 => optional(LISTENERS).prop_map(Some)],
        prop_oneof![2 => Just(None), 1 => optional(LISTENERS).prop_map(Some)],
    )
        .prop_map(|(first, second)| {
            let first = first.map(|section| ("g0", section));
            let second = second.map(|section| ("g1", section));
            [first, second].into_iter().flatten().collect::<Vec<_>>()
        });
    let hostnames = select(HOSTNAMES);
    let rule = (
        select(&["/", "/a", "/a/b"][..]),
        any::<bool>(),
        namespace(),
        one(SERVICES),
    )
        .prop_map(|(path, named, namespace, service)| Rule {
            path,
            named,
            backend: (namespace, service),
        });
    let rules = prop::collection::vec(rule, 1..3).prop_map(|mut rules| {
        // Names of rules are unique in their route.
        for rule in rules.iter_mut().skip(1) {
            rule.named = false;
        }
        rules
    });
    (namespace(), one(ROUTES), parents, hostnames, rules).prop_map(
        |(namespace, name, parents, hostnames, rules)| {
            let spec = Spec::Route {
                parents,
                hostnames: hostnames.to_vec(),
                rules,
            };
            (key("HTTPRoute", namespace, name), spec)
        },
    )
}

fn policy() -> impl Strategy<Value = (Key, Spec)> {
    let target = prop_oneof![
        2 => (one(GATEWAYS), optional(LISTENERS)).prop_map(|(g, l)| Target::Gateway(g, l)),
        3 => (one(ROUTES), any::<bool>()).prop_map(|(r, named)| Target::Route(r, named)),
        1 => one(APIS).prop_map(Target::Api),
    ];
    let does = prop_oneof![
        4 => (0..3u8).prop_map(Does::Header),
        3 => one(SECRETS).prop_map(Does::Keys),
        1 => Just(Does::Mistake),
    ];
    let targets = prop::collection::vec(target, 1..3);
    (namespace(), select(POLICIES), targets, any::<bool>(), does).prop_map(
        |(namespace, name, mut targets, is_override, does)| {
            targets.dedup();
            let spec = Spec::Policy {
                targets,
                is_override,
                does,
            };
            (key("Policy", namespace, name), spec)
        },
    )
}

fn api() -> impl Strategy<Value = (Key, Spec)> {
    let base = select(&["/x", "/y", "/x/v1"][..]);
    (namespace(), one(APIS), base, one(ROUTES), any::<bool>()).prop_map(
        |(namespace, name, base, route, is_default)| {
            let spec = Spec::Api {
                base,
                route,
                is_default,
            };
            (key("API", namespace, name), spec)
        },
    )
}

fn followed() -> impl Strategy<Value = (Key, Spec)> {
    prop_oneof![
        2 => (namespace(), one(SERVICES), prop_oneof![4 => Just(80u16), 1 => Just(81)])
            .prop_map(|(ns, name, port)| (key("Service", ns, name), Spec::Service(port))),
        2 => (namespace(), one(SERVICES), one(SERVICES), 1..4u8).prop_map(
            |(ns, name, service, address)| {
                (key("EndpointSlice", ns, name), Spec::Slice(service, address))
            }
        ),
        2 => (select(NAMESPACES), select(NAMESPACES), optional(SERVICES))
            .prop_map(|(ns, from, to)| (key("ReferenceGrant", ns, "grant"), Spec::Grant(from, to))),
        2 => (namespace(), one(SECRETS), 0..3u8)
            .prop_map(|(ns, name, value)| (key("Secret", ns, name), Spec::Secret(value))),
    ]
}

fn thing(faults: bool) -> impl Strategy<Value = (Key, Thing)> {
    let spec = prop_oneof![
        2 => namespaces(),
        3 => gateway(),
        5 => route(),
        5 => policy(),
        2 => api(),
        4 => followed(),
    ];
    let fault = prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Fails),
        1 => Just(Fault::NotReady),
    ];
    (spec, fault, 0..3u8).prop_map(move |((key, spec), fault, age)| {
        let fault = if faults { fault } else { Fault::None };
        (key, Thing { spec, fault, age })
    })
}

/// A change of the world.
pub fn op(faults: bool) -> BoxedStrategy<Op> {
    let swap = (
        select(&super::spy::MODULES[..]),
        1..4u32,
        prop::option::of(select(&["r0", "r1", "p0", "p1", "g0", "a0"][..])),
    )
        .prop_map(move |(module, number, breaks)| {
            let breaks = breaks.filter(|_| faults).into_iter().collect();
            Op::Swap(module, Version { number, breaks })
        });
    prop_oneof![
        12 => thing(faults).prop_map(|(key, thing)| Op::Put(key, thing)),
        3 => thing(false).prop_map(|(key, _)| Op::Delete(key)),
        1 => swap,
        5 => prop_oneof![3 => Just(true), 1 => Just(false)].prop_map(Op::Epoch),
    ]
    .boxed()
}
