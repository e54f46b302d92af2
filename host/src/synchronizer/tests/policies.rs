//! Policies: where effects go, who wins, and how little a change touches.

use super::lab::*;
use super::make::*;
use crate::store::Key;
use chiton_ir::policy::{ApiKey, Effect, KeySource, RateLimit};
use chiton_ir::route::Rule;
use chiton_ir::{ObjectRef, Scope};
use chiton_xds::ResourceType;
use serde_json::json;

/// Two Gateways' worth of hostnames, twenty routes of one hostname each.
fn lab() -> Lab {
    let mut lab = Lab::default();
    lab.gateway(
        "gw",
        vec![http("web", 80, None), http("b", 80, Some("*.b.example"))],
    );
    lab.service("s");
    for index in 0..20 {
        let host = format!("r{index}.example");
        let named = Rule {
            name: Some("named".into()),
            ..rule("/named", "s")
        };
        let rules = vec![rule("/", "s"), named];
        lab.route(
            &format!("r{index}"),
            route(vec![at("gw", "web", &[&host])], rules),
        );
    }
    lab.route(
        "b",
        route(vec![at("gw", "b", &["x.b.example"])], vec![rule("/", "s")]),
    );
    lab.step();
    lab
}

fn gateway() -> chiton_ir::policy::Target {
    target(GATEWAY, "Gateway", "gw", None)
}

fn httproute(name: &str, section: Option<&str>) -> chiton_ir::policy::Target {
    target(GATEWAY, "HTTPRoute", name, section)
}

fn limit(requests: u32) -> Effect {
    Effect::RateLimit(RateLimit {
        requests,
        interval_ms: 1_000,
        burst: None,
    })
}

fn object(lab: &Lab, key: &Key, r#type: &str) -> Option<String> {
    lab.condition(key, &Scope::Object, r#type)
}

#[test]
fn a_gateway_wide_policy_is_one_route_configuration() {
    let mut lab = lab();
    let key = lab.policy("p", defaults(gateway(), vec![headers("1")]));
    let delta = lab.step();
    assert_eq!(changed(&delta), ["RouteConfiguration http-80"]);
    assert_eq!(delta.findings.len(), 1);
    assert_eq!(lab.findings[&key].ancestors, [parent("gw")]);
    lab.policy("p", defaults(gateway(), vec![headers("2")]));
    assert_eq!(changed(&lab.step()), ["RouteConfiguration http-80"]);
    lab.delete(&key);
    assert_eq!(changed(&lab.step()), ["RouteConfiguration http-80"]);
}

#[test]
fn a_policy_on_a_route_is_its_virtual_hosts() {
    let mut lab = lab();
    let key = lab.policy("p", defaults(httproute("r3", None), vec![headers("1")]));
    assert_eq!(changed(&lab.step()), ["VirtualHost http-80/r3.example"]);
    let host = lab.host("http-80", "r3.example");
    assert!(host.routes.iter().all(|entry| entry.effects.len() == 1));
    lab.policy(
        "p",
        defaults(httproute("r3", Some("named")), vec![headers("1")]),
    );
    lab.step();
    let host = lab.host("http-80", "r3.example");
    let effects: Vec<_> = host
        .routes
        .iter()
        .map(|entry| entry.effects.len())
        .collect();
    assert_eq!(effects, [1, 0], "/named, /");
    assert_eq!(lab.findings[&key].ancestors, [parent("gw")]);
}

#[test]
fn more_specific_defaults_and_wider_overrides_win() {
    let mut lab = lab();
    let wide = lab.policy("wide", defaults(gateway(), vec![headers("wide")]));
    let own = lab.policy("own", defaults(httproute("r3", None), vec![headers("own")]));
    lab.step();
    let has_own = |lab: &Lab| {
        !lab.host("http-80", "r3.example").routes[0]
            .effects
            .is_empty()
    };
    assert!(has_own(&lab));
    assert_eq!(
        object(&lab, &wide, "Overridden").as_deref(),
        Some("True Overridden")
    );
    assert_eq!(object(&lab, &own, "Overridden"), None);
    lab.policy("wide", overrides(gateway(), vec![headers("wide")]));
    // The route with effects of the same name is assembled again, the nineteen others are not.
    assert_eq!(
        changed(&lab.step()),
        ["VirtualHost http-80/r3.example"],
        "the route configuration holds the same effect as before"
    );
    assert!(!has_own(&lab));
    assert_eq!(object(&lab, &wide, "Overridden"), None);
    assert_eq!(
        object(&lab, &own, "Accepted").as_deref(),
        Some("False Conflicted")
    );
}

#[test]
fn the_younger_of_two_on_one_level_loses() {
    let mut lab = lab();
    let first = lab.policy("a", defaults(httproute("r3", None), vec![headers("a")]));
    let second = lab.policy(
        "b",
        defaults(httproute("r3", None), vec![headers("b"), limit(5)]),
    );
    lab.step();
    assert_eq!(object(&lab, &first, "Overridden"), None);
    assert_eq!(
        object(&lab, &second, "Overridden").as_deref(),
        Some("True Overridden")
    );
    assert_eq!(
        object(&lab, &second, "Accepted"),
        None,
        "its rate limit holds"
    );
    let message = &lab.findings[&second].conditions[0].message;
    assert!(message.contains("Policy default/a"), "{message}");
}

#[test]
fn listeners_that_differ_put_effects_on_virtual_hosts() {
    let mut lab = lab();
    lab.policy(
        "p",
        defaults(
            target(GATEWAY, "Gateway", "gw", Some("b")),
            vec![headers("1")],
        ),
    );
    // Reserved and real ones of that listener.
    assert_eq!(
        changed(&lab.step()),
        [
            "VirtualHost http-80/*.b.example",
            "VirtualHost http-80/x.b.example"
        ]
    );
    assert_eq!(lab.host("http-80", "x.b.example").effects.len(), 1);
    assert!(lab.host("http-80", "r1.example").effects.is_empty());
}

#[test]
fn buckets_are_those_in_use() {
    let mut lab = lab();
    let name = "rate-limit_http-80";
    let empty = lab.resource(ResourceType::ExtensionConfig, name).cloned();
    assert!(empty.is_some());
    let wide = lab.policy("wide", defaults(gateway(), vec![limit(100)]));
    assert_eq!(
        changed(&lab.step()),
        [
            "ExtensionConfig rate-limit_http-80",
            "RouteConfiguration http-80"
        ]
    );
    let own = lab.policy("own", defaults(httproute("r3", None), vec![limit(5)]));
    assert_eq!(
        changed(&lab.step()),
        [
            "ExtensionConfig rate-limit_http-80",
            "VirtualHost http-80/r3.example"
        ]
    );
    lab.policy("own", defaults(httproute("r3", None), vec![limit(6)]));
    assert!(changed(&lab.step()).contains(&"ExtensionConfig rate-limit_http-80".to_owned()));
    // A change of something else leaves the buckets alone.
    lab.policy(
        "headers",
        defaults(httproute("r3", None), vec![headers("1")]),
    );
    assert_eq!(changed(&lab.step()), ["VirtualHost http-80/r3.example"]);
    lab.delete(&wide);
    lab.delete(&own);
    lab.step();
    assert_eq!(
        lab.resource(ResourceType::ExtensionConfig, name),
        empty.as_ref()
    );
}

#[test]
fn respond_answers_instead_of_backends() {
    let mut lab = lab();
    lab.policy("p", defaults(gateway(), vec![respond(503)]));
    lab.policy("own", defaults(httproute("r3", None), vec![respond(418)]));
    lab.step();
    // On the virtual host, where unknown paths are answered too; on the entry its own.
    let wide = lab.host("http-80", "r1.example");
    assert_eq!(*wide.effects["respond"].effect, respond(503));
    assert!(wide.routes[0].effects.is_empty());
    let own = lab.host("http-80", "r3.example");
    assert_eq!(*own.routes[0].effects["respond"].effect, respond(418));
}

#[test]
fn wide_cors_is_repeated_where_preflights_would_not_match() {
    let mut lab = lab();
    let mut get = rule("/", "s");
    get.matches[0].method = Some("GET".into());
    lab.route(
        "get",
        route(
            vec![at("gw", "web", &["get"])],
            vec![get, rule("/any", "s")],
        ),
    );
    lab.step();
    let cors = |origin: &str| {
        Effect::Cors(chiton_ir::policy::Cors {
            allow_origins: vec![origin.into()],
            ..chiton_ir::policy::Cors::default()
        })
    };
    for origin in ["https://a.example", "https://b.example"] {
        lab.policy("p", defaults(gateway(), vec![cors(origin)]));
        assert_eq!(
            changed(&lab.step()),
            ["RouteConfiguration http-80", "VirtualHost http-80/get"]
        );
    }
    let copies: Vec<_> = lab.host("http-80", "get").routes;
    let copies: Vec<_> = copies.iter().map(|entry| entry.effects.len()).collect();
    assert_eq!(copies, [0, 1], "/any, GET /");
}

#[test]
fn a_target_must_be_there() {
    let mut lab = lab();
    for target in [
        httproute("gone", None),
        httproute("r1", Some("gone")),
        target(GATEWAY, "Gateway", "gw", Some("gone")),
        target(CHITON, "API", "gone", None),
        target("", "Service", "s", None),
    ] {
        let key = lab.policy("p", defaults(target.clone(), vec![headers("1")]));
        assert!(changed(&lab.step()).is_empty());
        assert_eq!(
            object(&lab, &key, "Accepted").as_deref(),
            Some("False TargetNotFound"),
            "{target:?}"
        );
    }
    let key = lab.policy("p", defaults(httproute("gone", None), vec![headers("1")]));
    lab.step();
    lab.route(
        "gone",
        route(vec![at("gw", "web", &["gone"])], vec![rule("/", "s")]),
    );
    lab.step();
    assert_eq!(object(&lab, &key, "Accepted"), None);
    let mut two = defaults(httproute("r1", None), vec![headers("1")]);
    two.targets.push(httproute("nowhere", None));
    lab.policy("p", two);
    lab.step();
    let scope = Scope::Parent(chiton_ir::ParentRef {
        object: ObjectRef::new(GATEWAY, "HTTPRoute", "default", "nowhere"),
        section: None,
        port: None,
    });
    assert_eq!(object(&lab, &key, "Accepted"), None);
    assert_eq!(
        lab.condition(&key, &scope, "Accepted").as_deref(),
        Some("False TargetNotFound")
    );
}

#[test]
fn keys_come_from_secrets_and_fail_closed() {
    let mut lab = lab();
    let api_key = Effect::ApiKey(ApiKey {
        secrets: vec![ObjectRef::new("", "Secret", "default", "keys")],
        sources: vec![KeySource::Header("x-key".into())],
        client_header: None,
    });
    let key = lab.policy("p", defaults(httproute("r3", None), vec![api_key]));
    lab.step();
    let keys = |lab: &Lab| {
        let host = lab.host("http-80", "r3.example");
        let placed = host.routes[0].effects["apiKey"].clone();
        placed.keys.map(|keys| {
            let pair =
                |it: &crate::synchronizer::model::Credential| (it.client.clone(), it.key.clone());
            keys.iter().map(pair).collect::<Vec<_>>()
        })
    };
    assert_eq!(keys(&lab), None);
    assert_eq!(
        object(&lab, &key, "ResolvedRefs").as_deref(),
        Some("False InvalidSecretRef")
    );
    let mut secret = named("v1", "Secret", "keys");
    secret["data"] = json!({"alice": "c2VjcmV0Cg=="});
    let secret_key = lab.input(&secret);
    lab.step();
    assert_eq!(keys(&lab), Some(vec![("alice".into(), "secret".into())]));
    assert_eq!(object(&lab, &key, "ResolvedRefs"), None);
    secret["stringData"] = json!({"bob": "secret", "carol": "other", "dave": ""});
    lab.input(&secret);
    lab.step();
    assert_eq!(
        keys(&lab),
        Some(vec![
            ("alice".into(), "secret".into()),
            ("carol".into(), "other".into())
        ])
    );
    assert_eq!(
        object(&lab, &key, "ResolvedRefs").as_deref(),
        Some("False InvalidSecretRef")
    );
    lab.delete(&secret_key);
    lab.step();
    assert_eq!(keys(&lab), None);
}

#[test]
fn an_effect_that_cannot_be_sent_answers_500() {
    let mut lab = lab();
    let key = lab.policy("p", defaults(httproute("r3", None), vec![limit(0)]));
    lab.step();
    assert_eq!(
        object(&lab, &key, "Accepted").as_deref(),
        Some("False Invalid")
    );
    let host = lab.host("http-80", "r3.example");
    assert_eq!(*host.routes[0].effects["respond"].effect, respond(500));
}
