//! Held policies: what they let through.

use super::bench::Bench;
use crate::store::Key;
use crate::synchronizer::tests::lab::GATEWAY;
use crate::synchronizer::tests::make::*;
use chiton_ir::ObjectRef;
use chiton_ir::policy::{ApiKey, Effect, KeySource, Policy, Target};
use chiton_xds::ResourceType;
use serde_json::json;

fn on(name: &str) -> Target {
    target(GATEWAY, "HTTPRoute", name, None)
}

fn keys(header: &str) -> Effect {
    Effect::ApiKey(ApiKey {
        secrets: vec![ObjectRef::new("", "Secret", "default", "keys")],
        sources: vec![KeySource::Header(header.into())],
        client_header: None,
    })
}

fn secret(bench: &mut Bench, key: &str) -> Key {
    let mut body = named("v1", "Secret", "keys");
    body["stringData"] = json!({"client": key});
    bench.lab.input(&body)
}

/// Status codes of fixed answers in the virtual host, by the path of the route.
fn answers(bench: &Bench, path: &str) -> Option<u16> {
    use crate::synchronizer::model::Effects;
    use chiton_ir::route::PathMatch;
    let host = bench.holder.assembled("http-80", "h.example")?;
    let entry = host
        .routes
        .iter()
        .find(|entry| matches!(&entry.matches.path, PathMatch::Prefix(prefix) if prefix == path))?;
    let respond = |effects: &Effects| match &*effects.get("respond")?.effect {
        Effect::Respond(respond) => Some(respond.status),
        _ => None,
    };
    respond(&entry.effects)
}

#[test]
fn a_policy_that_never_held_is_left_out_but_one_that_asks_for_keys_closes_its_route() {
    let mut bench = Bench::new();
    secret(&mut bench, "k");
    for name in ["open", "locked", "good"] {
        bench.route(name, &format!("/{name}"));
    }
    bench
        .lab
        .policy("headers", defaults(on("open"), vec![headers("evil")]));
    let locks = bench
        .lab
        .policy("locks", defaults(on("locked"), vec![keys("x-evil")]));
    bench.settle();
    assert_eq!(bench.held(), ["headers", "locks"]);
    assert_eq!(answers(&bench, "/open"), None);
    assert_eq!(answers(&bench, "/locked"), Some(500));
    assert_eq!(answers(&bench, "/good"), None);
    assert!(
        bench.said(&locks).contains("answered with 500"),
        "{}",
        bench.said(&locks)
    );

    bench
        .lab
        .policy("locks", defaults(on("locked"), vec![keys("x-key")]));
    bench.settle();
    assert_eq!(bench.held(), ["headers"]);
    assert_eq!(answers(&bench, "/locked"), None);
    assert!(bench.serves("x-key"));
}

#[test]
fn a_closing_policy_keeps_what_it_had_and_closes_what_it_never_had() {
    let mut bench = Bench::new();
    secret(&mut bench, "k");
    bench.route("old", "/old");
    bench
        .lab
        .policy("locks", defaults(on("old"), vec![keys("x-key")]));
    bench.settle();
    bench.route("new", "/new");
    bench.lab.policy(
        "locks",
        Policy {
            targets: vec![on("old"), on("new")],
            default: vec![keys("x-evil")],
            r#override: Vec::new(),
        },
    );
    bench.settle();
    assert_eq!(bench.held(), ["locks"]);
    assert!(bench.serves("x-key"));
    assert_eq!(
        (answers(&bench, "/old"), answers(&bench, "/new")),
        (None, Some(500))
    );

    bench
        .lab
        .policy("locks", defaults(on("old"), vec![keys("x-other")]));
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("x-other"));
    assert_eq!(answers(&bench, "/new"), None);
}

#[test]
fn a_policy_of_a_module_that_fails_closed_closes() {
    let mut bench = Bench::new();
    bench.route("r", "/r");
    let key = bench
        .lab
        .policy("p", defaults(on("r"), vec![headers("evil")]));
    bench.lab.of_module(&key, "closed-by-default");
    bench.settle();
    assert_eq!(bench.held(), ["p"]);
    assert_eq!(answers(&bench, "/r"), Some(500));
}

#[test]
fn a_secret_that_proxies_refuse_keeps_its_last_keys() {
    let mut bench = Bench::new();
    bench.route("r", "/r");
    bench.route("good", "/good");
    bench
        .lab
        .policy("p", defaults(on("r"), vec![keys("x-key")]));
    secret(&mut bench, "fine-key");
    bench.settle();
    assert!(bench.serves("fine-key"));
    let key = secret(&mut bench, "evil-key");
    bench.settle();
    assert_eq!(bench.held(), ["keys"]);
    assert!(bench.serves("fine-key") && !bench.said(&key).contains("key:"));
    let saved = serde_json::to_string(&bench.holder.accepted_forms()).unwrap();
    assert!(
        !saved.contains("fine-key") && !saved.contains("evil-key"),
        "{saved}"
    );
    secret(&mut bench, "other-key");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("other-key"));
}

/// The content of Secrets is nowhere saved.
#[test]
fn a_secret_that_was_held_before_a_restart_is_left_out_where_nobody_has_it_and_says_so() {
    let mut bench = Bench::new();
    bench.route("r", "/r");
    bench.route("good", "/good");
    bench
        .lab
        .policy("p", defaults(on("r"), vec![keys("x-key")]));
    secret(&mut bench, "fine-key");
    bench.settle();
    let key = secret(&mut bench, "evil-key");
    bench.settle();
    let saved = bench.holder.accepted_forms();

    // The proxy stayed.
    bench.restart(saved.clone());
    bench.settle();
    assert_eq!(bench.held(), ["keys"]);
    let said = bench.said(&key);
    assert!(
        said.contains("was not saved over a restart of the host, so proxies keep what they have"),
        "{said}"
    );
    assert!(bench.serves("evil-key"), "nothing is taken away");

    // It ended too: routes beside it are served, and what needs the keys stays closed.
    bench.restart(saved);
    bench.fleet.proxies.clear();
    bench.connect(false);
    bench.settle();
    assert_eq!(bench.held(), ["keys"]);
    assert!(
        bench.said(&key).contains("it is left out"),
        "{}",
        bench.said(&key)
    );
    assert!(bench.serves("/good") && !bench.serves("evil-key"));
    assert!(bench.serves("x-key"), "it asks for keys that nobody has");
    secret(&mut bench, "other-key");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("other-key"));
}

#[test]
fn policies_and_routes_that_come_together_are_not_open_in_between() {
    let mut bench = Bench::new();
    secret(&mut bench, "k");
    bench.route("good", "/good");
    bench.settle();
    for index in 0..8 {
        let name = format!("r{index}");
        bench.route(&name, &format!("/{name}"));
        let header = if index == 3 { "x-evil" } else { "x-key" };
        bench
            .lab
            .policy(&name, defaults(on(&name), vec![keys(header)]));
    }
    bench.apply();
    while bench.fleet.send(0, 0) || bench.fleet.reply(0, 0) {
        bench.listen();
        let host = bench.holder.assembled("http-80", "h.example").unwrap();
        for entry in host.routes.iter().filter(|it| it.name != "default/good") {
            assert!(!entry.effects.is_empty(), "{} is open", entry.name);
        }
    }
    assert_eq!(bench.held(), ["r3"]);
    assert!(bench.published(ResourceType::VirtualHost, "http-80/h.example", "/r7"));
}
