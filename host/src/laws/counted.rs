//! What a change costs does not depend on how many objects there are: counted, not timed.
//!
//! Counted are calls of reconcilers, resources that proxies are sent, and how often the key of an
//! object is looked at on the way ([`counted::touches`]): whatever walks over objects shows there.

use super::host::{Host, options};
use super::manifests::{Does, Listener, Rule, Scope, Spec, Target, Thing, key};
use crate::modules::{Builtins, Registry};
use crate::store::identity::counted;
use crate::store::{Change as StoreChange, Key};
use chiton_xds::Change;

/// A leak is fine: tests end.
fn name(prefix: &str, number: usize) -> &'static str {
    format!("{prefix}{number}").leak()
}

fn route(number: usize, path: &'static str, service: (&'static str, &'static str)) -> Thing {
    Spec::Route {
        parents: vec![("g0", None)],
        hostnames: vec![name("h", number)],
        rules: vec![Rule {
            path,
            named: false,
            backend: service,
        }],
    }
    .into()
}

fn policy(targets: Vec<Target>, does: Does) -> Thing {
    Spec::Policy {
        targets,
        is_override: false,
        does,
    }
    .into()
}

fn service(number: usize) -> &'static str {
    name("s", number)
}

/// A fleet of routes, each with a hostname, a Service and endpoints of its own; two listeners with a
/// policy on both; one route with keys and one whose Service is elsewhere.
fn fleet(routes: usize) -> Host {
    let host = Host::new(options());
    let listener = |name, port| Listener {
        name,
        port,
        hostname: None,
        scope: Scope::All,
    };
    let mut all: Vec<(Key, Thing)> = vec![
        (key("GatewayClass", "", "chiton"), Spec::Class.into()),
        (
            key("Namespace", "", "default"),
            Spec::Namespace(None).into(),
        ),
        (
            key("Gateway", "default", "g0"),
            Spec::Gateway(vec![listener("l0", 8000), listener("l1", 8001)]).into(),
        ),
        (
            key("Policy", "default", "wide"),
            policy(vec![Target::Gateway("g0", None)], Does::Header(0)),
        ),
        (
            key("Policy", "default", "keys"),
            policy(vec![Target::Route("r7", false)], Does::Keys("k0")),
        ),
        (key("Secret", "default", "k0"), Spec::Secret(0).into()),
        (
            key("Service", "team", "elsewhere"),
            Spec::Service(80).into(),
        ),
        (
            key("HTTPRoute", "default", "abroad"),
            route(routes, "/", ("team", "elsewhere")),
        ),
    ];
    for number in 0..routes {
        let service = service(number);
        all.push((
            key("HTTPRoute", "default", name("r", number)),
            route(number, "/", ("default", service)),
        ));
        all.push((key("Service", "default", service), Spec::Service(80).into()));
        all.push((
            key("EndpointSlice", "default", service),
            Spec::Slice(service, 1).into(),
        ));
    }
    let changes: Vec<_> = all
        .iter()
        .map(|(key, thing)| StoreChange::Put(thing.object(key)))
        .collect();
    host.store.commit(&changes);
    let mut host = host;
    host.rest();
    host.calls.lock().unwrap().clear();
    host
}

/// What a change cost.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// Objects that were reconciled.
    calls: Vec<String>,
    /// Resources by type, removals with a minus.
    sent: Vec<String>,
}

fn change(host: &mut Host, change: &StoreChange) -> (Cost, u64) {
    let (touches, (calls, delta)) = counted::touches(|| {
        host.store.commit(std::slice::from_ref(change));
        (host.epoch(), host.synchronize())
    });
    let calls = calls.iter().map(|call| call.object.key.to_string());
    let mut sent: Vec<String> = delta
        .resources
        .values()
        .flatten()
        .map(|change| match change {
            Change::Put(resource) => resource.name.kind.to_string(),
            Change::Remove(name) => format!("-{}", name.kind),
        })
        .collect();
    sent.sort();
    let cost = Cost {
        calls: calls.collect(),
        sent,
    };
    (cost, touches)
}

fn put(key: &Key, thing: &Thing) -> StoreChange {
    StoreChange::Put(thing.object(key))
}

/// The changes, each with the calls and resources that it may cost.
fn changes() -> Vec<(
    StoreChange,
    &'static [&'static str],
    &'static [&'static str],
)> {
    let r5 = key("HTTPRoute", "default", "r5");
    let one = key("Policy", "default", "one");
    let grant = key("ReferenceGrant", "team", "grant");
    let on_one = |value| policy(vec![Target::Route("r9", false)], Does::Header(value));
    let wide = policy(vec![Target::Gateway("g0", None)], Does::Header(1));
    vec![
        (
            put(&r5, &route(5, "/changed", ("default", "s5"))),
            &["HTTPRoute default/r5"],
            &["VirtualHost", "VirtualHost"],
        ),
        (
            put(
                &key("EndpointSlice", "default", "s3"),
                &Spec::Slice("s3", 9).into(),
            ),
            &[],
            &["ClusterLoadAssignment"],
        ),
        (
            put(&one, &on_one(1)),
            &["Policy default/one"],
            &["VirtualHost", "VirtualHost"],
        ),
        (
            put(&one, &on_one(2)),
            &["Policy default/one"],
            &["VirtualHost", "VirtualHost"],
        ),
        (
            StoreChange::Delete(one),
            &[],
            &["VirtualHost", "VirtualHost"],
        ),
        (
            put(&key("Policy", "default", "wide"), &wide),
            &["Policy default/wide"],
            &["RouteConfiguration", "RouteConfiguration"],
        ),
        (
            put(&grant, &Spec::Grant("default", None).into()),
            &[],
            &[
                "Cluster",
                "ClusterLoadAssignment",
                "VirtualHost",
                "VirtualHost",
            ],
        ),
        (
            StoreChange::Delete(grant),
            &[],
            &[
                "-Cluster",
                "-ClusterLoadAssignment",
                "VirtualHost",
                "VirtualHost",
            ],
        ),
        (
            put(&key("Secret", "default", "k0"), &Spec::Secret(1).into()),
            &[],
            &["VirtualHost", "VirtualHost"],
        ),
        (
            StoreChange::Delete(key("Service", "default", "s4")),
            &[],
            &[
                "-Cluster",
                "-ClusterLoadAssignment",
                "VirtualHost",
                "VirtualHost",
            ],
        ),
        (
            StoreChange::Delete(r5),
            &[],
            &[
                "-Cluster",
                "-ClusterLoadAssignment",
                "-VirtualHost",
                "-VirtualHost",
            ],
        ),
    ]
}

/// Entries touched by each change in a fleet of this size.
fn touches(routes: usize) -> Vec<u64> {
    let mut host = fleet(routes);
    changes()
        .into_iter()
        .map(|(it, calls, sent)| {
            let (cost, touches) = change(&mut host, &it);
            assert_eq!(cost.calls, calls, "of {routes}: {it:?}");
            assert_eq!(cost.sent, sent, "of {routes}: {it:?}");
            touches
        })
        .collect()
}

/// Within a logarithm: 100 times as many objects are under seven more halvings for each search.
fn grows_like_a_logarithm(few: usize, many: usize) {
    let (of_few, of_many) = (touches(few), touches(many));
    for (index, (a, b)) in of_few.iter().zip(&of_many).enumerate() {
        let what = &changes()[index].0;
        assert!(*a > 0, "nothing is counted");
        assert!(
            *b <= 2 * *a,
            "{a} of {few} and {b} of {many} touched by {what:?}"
        );
    }
}

#[test]
fn a_change_costs_the_same_among_1_000_and_10_000_routes() {
    grows_like_a_logarithm(1_000, 10_000);
}

#[test]
#[ignore = "soak"]
fn a_change_costs_the_same_among_1_000_and_100_000_routes() {
    grows_like_a_logarithm(1_000, 100_000);
}

/// Who looks for modules does not look at every `ConfigMap`.
#[test]
fn looking_for_modules_costs_what_modules_there_are() {
    let count = |config_maps: usize| {
        let host = Host::new(options());
        let changes: Vec<_> = (0..config_maps)
            .map(|number| {
                let key = key("ConfigMap", "default", name("c", number));
                let fields = serde_json::json!({"metadata": {"name": key.name}});
                let labels = serde_json::json!({"app": "x"});
                StoreChange::Put(super::manifests::object(&key, labels, None, fields))
            })
            .collect();
        host.store.commit(&changes);
        let none = Builtins {
            enabled: Some(Vec::new()),
            dir: None,
        };
        let registry = Registry::offline(&none).expect("a registry");
        let world = host.engine.world();
        let snapshot = host.store.snapshot();
        counted::touches(|| registry.load_all(&snapshot, &world)).0
    };
    assert_eq!(count(10), count(10_000));
}
