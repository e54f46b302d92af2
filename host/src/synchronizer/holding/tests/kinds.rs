//! Every kind of resource, and what is behind it.

use super::bench::Bench;
use crate::synchronizer::tests::lab::{CHITON, GATEWAY};
use crate::synchronizer::tests::make::*;
use chiton_ir::policy::{Effect, RateLimit};
use chiton_ir::route::BackendTarget;
use chiton_xds::ResourceType;
use serde_json::json;

fn backend(bench: &mut Bench, host: &str) -> crate::store::Key {
    let mut body = named("chiton.dev/v1alpha1", "Backend", "b");
    body["spec"] = json!({"endpoints": [{"host": host, "port": 80}]});
    bench.lab.input(&body)
}

fn route_to_backend(bench: &mut Bench) {
    let mut to = rule("/b", "s");
    to.backends[0].target = BackendTarget {
        object: chiton_ir::ObjectRef::new(CHITON, "Backend", "default", "b"),
        port: None,
    };
    let parents = vec![at("gw", "web", &["h.example"])];
    bench.lab.route("to-b", route(parents, vec![to]));
}

#[test]
fn a_cluster_is_the_fault_of_its_backend() {
    let mut bench = Bench::new();
    bench.route("good", "/good");
    let key = backend(&mut bench, "good.example");
    route_to_backend(&mut bench);
    bench.settle();
    backend(&mut bench, "evil.example");
    bench.settle();
    assert_eq!(bench.held(), ["b"]);
    assert!(bench.published(ResourceType::Cluster, "backend_default_b", "good.example"));
    assert!(bench.serves("backend_default_b"));
    backend(&mut bench, "better.example");
    bench.settle();
    assert!(bench.held().is_empty());
    assert!(bench.published(ResourceType::Cluster, "backend_default_b", "better.example"));
    assert_eq!(bench.said(&key), "");
}

#[test]
fn a_backend_that_was_never_good_leaves_its_route_without_it() {
    let mut bench = Bench::new();
    bench.route("good", "/good");
    let key = backend(&mut bench, "evil.example");
    route_to_backend(&mut bench);
    bench.settle();
    assert_eq!(bench.held(), ["b"]);
    assert!(bench.serves("/good") && bench.serves("/b") && !bench.serves("backend_default_b"));
    assert!(
        bench.said(&key).contains("it is left out"),
        "{}",
        bench.said(&key)
    );
}

#[test]
fn a_listener_is_the_fault_of_its_gateway() {
    let mut bench = Bench::new();
    bench.refuse(|it| it.name.kind == ResourceType::Listener && it.name.name == "http-666");
    bench.lab.gateway("other", vec![http("x", 81, None)]);
    bench.route("good", "/good");
    bench.settle();
    bench
        .lab
        .gateway("other", vec![http("x", 81, None), http("y", 666, None)]);
    bench.settle();
    assert_eq!(bench.held(), ["other"]);
    assert!(bench.published(ResourceType::Listener, "http-81", "http-81") && bench.serves("/good"));
    assert!(!bench.published(ResourceType::Listener, "http-666", "http"));
    bench.lab.gateway("other", vec![http("x", 82, None)]);
    bench.settle();
    assert!(bench.held().is_empty());
    assert!(bench.published(ResourceType::Listener, "http-82", "http-82"));
}

#[test]
fn a_route_configuration_is_the_fault_of_a_wide_policy() {
    let mut bench = Bench::new();
    bench.route("good", "/good");
    let gateway = || target(GATEWAY, "Gateway", "gw", None);
    bench
        .lab
        .policy("p", defaults(gateway(), vec![headers("fine")]));
    bench.settle();
    bench
        .lab
        .policy("p", defaults(gateway(), vec![headers("evil")]));
    bench.settle();
    assert_eq!(bench.held(), ["p"]);
    assert!(bench.published(ResourceType::RouteConfiguration, "http-80", "fine"));
}

#[test]
fn an_extension_is_the_fault_of_a_rate_limit() {
    let mut bench = Bench::new();
    bench.refuse(|it| {
        it.name.kind == ResourceType::ExtensionConfig
            && it.body.windows(8).any(|part| part == b"_default")
            && it.body.windows(4).any(|part| part == b"_two")
    });
    let limit = || {
        Effect::RateLimit(RateLimit {
            requests: 5,
            interval_ms: 1_000,
            burst: None,
        })
    };
    for name in ["one", "two"] {
        bench.route(name, &format!("/{name}"));
        let on = target(GATEWAY, "HTTPRoute", name, None);
        bench.lab.policy(name, defaults(on, vec![limit()]));
    }
    bench.settle();
    let extension = |bench: &Bench, text: &str| {
        bench.published(ResourceType::ExtensionConfig, "rate-limit_http-80", text)
    };
    assert_eq!(bench.held(), ["two"]);
    assert!(extension(&bench, "_one") && !extension(&bench, "_two"));
    assert!(bench.serves("/two"), "the route is there without its limit");
}

#[test]
fn endpoints_hold_nothing() {
    let mut bench = Bench::new();
    bench.refuse(|it| it.name.kind == ResourceType::Endpoints);
    bench.route("good", "/good");
    bench.settle();
    bench.lab.slice("s", "10.0.0.6", true);
    bench.route("good", "/better");
    bench.settle();
    assert!(!bench.fleet.rejections.is_empty());
    assert!(bench.held().is_empty() && bench.serves("/better"));
}

#[test]
fn a_wide_answer_that_is_refused_on_every_host_is_one_culprit() {
    let mut bench = Bench::new();
    for index in 0..20 {
        bench.route_on(&format!("h{index}.example"), &format!("r{index}"), "/r");
    }
    bench.settle();
    let before = bench.publishes;
    let evil = Effect::Respond(chiton_ir::policy::Respond {
        status: 200,
        body: "evil".into(),
    });
    let gateway = target(GATEWAY, "Gateway", "gw", None);
    bench.lab.policy("p", defaults(gateway, vec![evil]));
    bench.settle();
    assert_eq!(bench.held(), ["p"]);
    assert_eq!(bench.publishes - before, 2);
}
