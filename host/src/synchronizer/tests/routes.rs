//! Routes: placing, precedence, locality.

use super::lab::*;
use super::make::*;
use crate::synchronizer::model::Action;
use chiton_ir::Scope;
use chiton_ir::route::{Match, PathMatch, Rule};
use chiton_xds::ResourceType;

fn lab() -> Lab {
    let mut lab = Lab::default();
    lab.gateway("gw", vec![http("web", 80, None)]);
    lab.service("s");
    lab
}

#[test]
fn a_route_gets_a_virtual_host_for_each_hostname() {
    let mut lab = lab();
    let key = lab.route(
        "r",
        route(
            vec![at("gw", "web", &["a.example", "b.example"])],
            vec![rule("/", "s")],
        ),
    );
    lab.step();
    assert_eq!(
        lab.names(ResourceType::VirtualHost),
        ["http-80/a.example", "http-80/b.example"]
    );
    assert_eq!(lab.names(ResourceType::Cluster), ["service_default_s_80"]);
    assert_eq!(lab.names(ResourceType::Endpoints), ["service_default_s_80"]);
    assert_eq!(
        lab.names(ResourceType::ExtensionConfig),
        ["rate-limit_http-80"]
    );
    assert_eq!(lab.findings[&key].resources[0].1.len(), 5);
    lab.delete(&key);
    let delta = lab.step();
    assert_eq!(
        changed(&delta),
        [
            "-Cluster service_default_s_80",
            "-Endpoints service_default_s_80",
            "-VirtualHost http-80/a.example",
            "-VirtualHost http-80/b.example"
        ]
    );
    assert_eq!(delta.findings.get(&key), Some(&None));
}

#[test]
fn a_change_of_one_route_sends_its_virtual_host_only() {
    let mut lab = lab();
    for index in 0..50 {
        let host = format!("r{index}.example");
        let name = format!("r{index}");
        lab.route(
            &name,
            route(vec![at("gw", "web", &[&host])], vec![rule("/", "s")]),
        );
    }
    lab.step();
    lab.route(
        "r7",
        route(
            vec![at("gw", "web", &["r7.example"])],
            vec![rule("/new", "s")],
        ),
    );
    let delta = lab.step();
    assert_eq!(changed(&delta), ["VirtualHost http-80/r7.example"]);
    assert!(delta.findings.is_empty());
}

#[test]
fn routes_of_one_hostname_are_merged_in_order() {
    let mut lab = lab();
    let parents = || vec![at("gw", "web", &["a.example"])];
    let exact = Rule {
        matches: vec![Match {
            path: PathMatch::Exact("/a/b".into()),
            ..Match::default()
        }],
        ..rule("/", "s")
    };
    lab.route("a", route(parents(), vec![rule("/", "s"), rule("/a", "s")]));
    lab.route(
        "b",
        route(parents(), vec![rule("/a", "s"), exact, rule("/a/b", "s")]),
    );
    lab.step();
    let order: Vec<_> = lab
        .host("http-80", "a.example")
        .routes
        .into_iter()
        .map(|entry| (entry.name.clone(), entry.matches.path.clone()))
        .collect();
    let prefix = |path: &str| PathMatch::Prefix(path.into());
    assert_eq!(
        order,
        [
            ("default/b".into(), PathMatch::Exact("/a/b".into())),
            ("default/b".into(), prefix("/a/b")),
            ("default/a".into(), prefix("/a")),
            ("default/b".into(), prefix("/a")),
            ("default/a".into(), prefix("/")),
        ]
    );
}

#[test]
fn a_hostname_belongs_to_the_most_specific_listener() {
    let mut lab = Lab::default();
    lab.service("s");
    lab.gateway(
        "gw",
        vec![
            http("any", 80, None),
            http("wild", 80, Some("*.example.com")),
            http("exact", 80, Some("a.example.com")),
        ],
    );
    let names = ["*", "b.example.com", "a.example.com", "c.org"];
    lab.route(
        "any",
        route(vec![at("gw", "any", &names)], vec![rule("/", "s")]),
    );
    lab.step();
    // The two reserved ones are empty: their requests must not reach the first listener's route.
    assert_eq!(
        lab.names(ResourceType::VirtualHost),
        [
            "http-80/*",
            "http-80/*.example.com",
            "http-80/a.example.com",
            "http-80/c.org"
        ]
    );
    assert!(lab.host("http-80", "a.example.com").routes.is_empty());
    assert!(lab.host("http-80", "*.example.com").routes.is_empty());
    assert_eq!(lab.host("http-80", "*").routes.len(), 1);
    lab.route(
        "exact",
        route(
            vec![at("gw", "exact", &["a.example.com"])],
            vec![rule("/", "s")],
        ),
    );
    let delta = lab.step();
    assert_eq!(changed(&delta), ["VirtualHost http-80/a.example.com"]);
}

#[test]
fn what_cannot_be_sent_is_answered_with_500() {
    let mut lab = lab();
    let bad_filter = Rule {
        filters: vec![chiton_ir::route::Filter::RequestHeaders(
            chiton_ir::route::HeaderChange {
                remove: vec![":path".into()],
                ..chiton_ir::route::HeaderChange::default()
            },
        )],
        ..rule("/bad", "s")
    };
    let bad_match = Rule {
        matches: vec![Match {
            path: PathMatch::Regex("(".into()),
            ..Match::default()
        }],
        ..rule("/", "s")
    };
    let invalid = Rule {
        invalid: true,
        ..rule("/invalid", "s")
    };
    let rules = vec![bad_filter, bad_match, invalid, rule("/good", "s")];
    let key = lab.route("r", route(vec![at("gw", "web", &["a", "b/c"])], rules));
    lab.step();
    assert_eq!(lab.names(ResourceType::VirtualHost), ["http-80/a"]);
    let statuses: Vec<_> = lab
        .host("http-80", "a")
        .routes
        .iter()
        .map(|entry| match &entry.action {
            Action::Respond { status, .. } => *status,
            _ => 200,
        })
        .collect();
    assert_eq!(statuses, [500, 200, 500], "/invalid, /good, /bad");
    let scope = Scope::Parent(parent("gw"));
    assert_eq!(
        lab.condition(&key, &scope, "PartiallyInvalid").as_deref(),
        Some("True UnsupportedValue")
    );
}
