//! Random histories: whatever came before, the synchronizer ends where a fresh start ends. The
//! comparison is in [`Lab::step`].

use super::lab::*;
use super::make::*;
use crate::store::Key;
use chiton_ir::ObjectRef;
use chiton_ir::api::Api;
use chiton_ir::gateway::Listener;
use chiton_ir::policy::{Effect, Policy, RateLimit, Target};
use proptest::prelude::*;
use serde_json::json;

/// One change. The numbers choose names and variants from a world so small that changes meet.
#[derive(Clone, Debug)]
enum Step {
    Gateway(u8, Vec<(u8, u8)>),
    Route(u8, Vec<(u8, u8, u8)>, Vec<(u8, u8, bool)>),
    Policy(u8, Vec<u8>, Vec<u8>, Vec<u8>),
    Api(u8, u8, u8, Option<Vec<u8>>),
    Service(u8, u8),
    Slice(u8, u8, bool),
    Secret(u8, u8),
    Grant(bool),
    Delete(u8),
    Apply,
}

const CERTIFICATE: &str = include_str!("keys/ec.crt");
const KEY: &str = include_str!("keys/ec.key");

const HOSTS: [&str; 4] = ["*", "*.example", "a.example", "b.example"];
const PATHS: [&str; 3] = ["/", "/a", "/a/b"];
const NAMES: [&str; 3] = ["x", "y", "z"];

/// A name; the first is chosen most, so that objects are about each other.
fn called(index: u8) -> &'static str {
    NAMES[usize::from(index % 16 > 8) + usize::from(index % 16 > 12)]
}

fn pick<T: Copy>(values: &[T], index: u8) -> T {
    values[usize::from(index) % values.len()]
}

fn step() -> impl Strategy<Value = Step> {
    let some = || any::<u8>();
    prop_oneof![
        1 => (some(), prop::collection::vec((some(), some()), 0..4))
            .prop_map(|(a, b)| Step::Gateway(a, b)),
        4 => (
            some(),
            prop::collection::vec((some(), some(), some()), 0..3),
            prop::collection::vec((some(), some(), any::<bool>()), 0..3)
        )
            .prop_map(|(a, b, c)| Step::Route(a, b, c)),
        6 => (
            some(),
            prop::collection::vec(some(), 1..3),
            prop::collection::vec(some(), 0..3),
            prop::collection::vec(some(), 0..2)
        )
            .prop_map(|(a, b, c, d)| Step::Policy(a, b, c, d)),
        1 => (
            some(),
            some(),
            some(),
            prop::option::of(prop::collection::vec(some(), 1..3))
        )
            .prop_map(|(a, b, c, d)| Step::Api(a, b, c, d)),
        1 => (some(), some()).prop_map(|(a, b)| Step::Service(a, b)),
        1 => (some(), some(), any::<bool>()).prop_map(|(a, b, c)| Step::Slice(a, b, c)),
        1 => (some(), some()).prop_map(|(a, b)| Step::Secret(a, b)),
        1 => any::<bool>().prop_map(Step::Grant),
        1 => some().prop_map(Step::Delete),
        8 => Just(Step::Apply),
    ]
}

fn listener(index: usize, (kind, host): (u8, u8)) -> Listener {
    let name = NAMES[index % NAMES.len()];
    let hostname = Some(pick(&HOSTS, host)).filter(|host| *host != "*");
    match kind % 4 {
        0 | 1 => http(name, 80, hostname),
        2 => http(name, 8080, hostname),
        _ => https(name, 8080, hostname, &["x"]),
    }
}

fn effect(index: u8) -> Effect {
    match index % 5 {
        4 => Effect::Cors(chiton_ir::policy::Cors {
            allow_origins: vec![format!("https://{}.example", called(index / 5))],
            ..chiton_ir::policy::Cors::default()
        }),
        0 => headers(NAMES[usize::from(index / 4) % 3]),
        1 => respond(200 + u16::from(index / 4) % 3),
        2 => Effect::RateLimit(RateLimit {
            requests: u32::from(index / 4) % 3,
            interval_ms: 1000,
            burst: None,
        }),
        _ => Effect::ApiKey(chiton_ir::policy::ApiKey {
            secrets: vec![ObjectRef::new("", "Secret", "default", called(index / 4))],
            sources: vec![chiton_ir::policy::KeySource::Header("x-key".into())],
            client_header: None,
        }),
    }
}

fn policy_target(index: u8) -> Target {
    let name = called(index / 5);
    match index % 5 {
        0 => target(GATEWAY, "Gateway", name, None),
        1 => target(GATEWAY, "Gateway", name, Some("x")),
        2 => target(GATEWAY, "HTTPRoute", name, None),
        3 => target(GATEWAY, "HTTPRoute", name, Some("named")),
        _ => target(CHITON, "API", name, None),
    }
}

impl Lab {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Gateway(name, listeners) => {
                let all = listeners.iter().enumerate();
                let all = all.map(|(index, it)| listener(index, *it)).collect();
                self.gateway(called(*name), all);
            }
            Step::Route(name, parents, rules) => self.take_route(*name, parents, rules),
            Step::Policy(name, targets, default, overrides) => {
                let policy = Policy {
                    targets: targets.iter().map(|it| policy_target(*it)).collect(),
                    default: default.iter().map(|it| effect(*it)).collect(),
                    r#override: overrides.iter().map(|it| effect(*it)).collect(),
                };
                self.policy(called(*name), policy);
            }
            Step::Api(name, production, sandbox, prefixes) => {
                let route = |name| ObjectRef::new(GATEWAY, "HTTPRoute", "default", name);
                let production = called(*production);
                let document = prefixes.as_ref().map(|prefixes| Api {
                    prefixes: prefixes
                        .iter()
                        .map(|it| pick(&PATHS, *it).to_owned())
                        .collect(),
                    production: Some(route(production)),
                    sandbox: (sandbox % 2 == 0).then(|| route(called(sandbox / 2))),
                    sandbox_header: None,
                });
                self.api(called(*name), production, document);
            }
            Step::Service(name, kind) => self.take_service(*name, *kind),
            Step::Slice(service, address, ready) => {
                let address = format!("10.0.0.{address}");
                self.slice(called(*service), &address, *ready);
            }
            Step::Secret(name, value) => {
                let mut secret = named("v1", "Secret", called(*name));
                secret["stringData"] = match value % 3 {
                    0 => json!({"client": value.to_string()}),
                    1 => json!({"tls.crt": CERTIFICATE, "tls.key": KEY}),
                    _ => json!({"tls.crt": CERTIFICATE, "tls.key": "rubbish"}),
                };
                self.input(&secret);
            }
            Step::Grant(named_only) => {
                let mut grant = named("gateway.networking.k8s.io/v1", "ReferenceGrant", "g");
                grant["metadata"]["namespace"] = "other".into();
                grant["spec"] = json!({
                    "from": [{"group": GATEWAY, "kind": "HTTPRoute", "namespace": "default"}],
                    "to": [{"group": "", "kind": "Service"}],
                });
                if *named_only {
                    grant["spec"]["to"][0]["name"] = "x".into();
                }
                self.input(&grant);
            }
            Step::Delete(what) => self.take_delete(*what),
            Step::Apply => drop(self.step()),
        }
    }

    fn take_route(&mut self, name: u8, parents: &[(u8, u8, u8)], rules: &[(u8, u8, bool)]) {
        let parents = parents
            .iter()
            .map(|(gateway, listener, host)| {
                at(called(*gateway), called(*listener), &[pick(&HOSTS, *host)])
            })
            .collect();
        let rules = rules
            .iter()
            .map(|(path, service, is_named)| {
                let service = match service % 5 {
                    3 => "other/x",
                    4 => "other/y",
                    index => NAMES[usize::from(index)],
                };
                let mut rule = rule(pick(&PATHS, *path), service);
                rule.name = is_named.then(|| "named".to_owned());
                rule.matches[0].method = (path % 2 == 0).then(|| "GET".to_owned());
                rule
            })
            .collect();
        self.route(called(name), route(parents, rules));
    }

    fn take_service(&mut self, name: u8, kind: u8) {
        let mut service = named("v1", "Service", called(name / 2));
        if name.is_multiple_of(2) {
            service["metadata"]["namespace"] = "other".into();
        }
        service["spec"] = match kind % 3 {
            0 => json!({"ports": [{"name": "http", "port": 80}]}),
            1 => json!({"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]}),
            _ => json!({"ports": [{"port": 81}]}),
        };
        self.input(&service);
    }

    fn take_delete(&mut self, what: u8) {
        let (group, kind) = pick(
            &[
                (GATEWAY, "Gateway"),
                (GATEWAY, "HTTPRoute"),
                (CHITON, "Policy"),
                (CHITON, "API"),
                ("", "Service"),
                ("", "Secret"),
                ("discovery.k8s.io", "EndpointSlice"),
            ],
            what / 3,
        );
        self.delete(&Key::new(group, kind, "default", called(what)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_history_ends_where_a_fresh_start_ends(
        steps in prop::collection::vec(step(), 1..60),
        fleet_per_gateway in any::<bool>(),
    ) {
        let mut lab = Lab::new(crate::synchronizer::Options {
            fleet_per_gateway,
            ..options()
        });
        for each in NAMES {
            lab.service(each);
        }
        lab.gateway("x", vec![http("x", 80, None), http("y", 80, Some("*.example"))]);
        for step in &steps {
            lab.take(step);
        }
        lab.step();
    }
}
