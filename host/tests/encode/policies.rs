//! Rate limits: which bucket counts, and that neighbours do not fill it.

use crate::backend::Backend;
use crate::gateway::{Gateway, RC};
use crate::values::{at, cluster, effects, entry, exact, host};
use chiton::synchronizer::{envoy, model};
use chiton_ir::policy::{Effect, RateLimit};
use chiton_xds::Resource;

/// So long that no test sees the bucket filled.
const LONG_MS: u64 = 3_600_000;

fn limit(requests: u32) -> RateLimit {
    RateLimit {
        requests,
        interval_ms: LONG_MS,
        burst: None,
    }
}

fn limited(bucket: &str) -> model::Effects {
    effects(bucket, vec![Effect::RateLimit(limit(1))])
}

fn buckets(wide: Option<&str>) -> Resource {
    envoy::rate_limits(&model::RateLimits {
        name: envoy::rate_limit_name(RC),
        buckets: [
            ("config".to_owned(), limit(3)),
            ("host".to_owned(), limit(2)),
            ("route".to_owned(), limit(1)),
            (
                "fast".to_owned(),
                RateLimit {
                    requests: 7,
                    interval_ms: 50,
                    burst: Some(20),
                },
            ),
        ]
        .into(),
        wide: wide.map(Into::into),
    })
}

/// How many of ten requests are let through.
async fn passed(gateway: &Gateway, host: &str, path: &str) -> usize {
    let mut passed = 0;
    for _ in 0..10 {
        let answer = gateway.get(host, path).await;
        match answer.status {
            200 => passed += 1,
            429 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
    }
    passed
}

#[tokio::test]
async fn the_bucket_of_the_most_specific_place_counts() {
    let a = Backend::start("a").await;
    let mut own = at(exact("/own"));
    own.effects = limited("route");
    let mut free = at(exact("/free"));
    free.without = vec!["rateLimit"];
    let mut with_host = host("host.example", vec![own.clone(), free.clone(), entry()]);
    with_host.effects = limited("host");
    let hosts = [
        with_host,
        host("config.example", vec![free, entry()]),
        host("config2.example", vec![entry()]),
    ];
    let mut others = cluster("a", &[&a]);
    others.push(buckets(Some("config")));
    others.push(envoy::route_config(&model::RouteConfig {
        name: RC.into(),
        effects: limited("config"),
    }));
    let gateway = Gateway::serve(&hosts, others).await;
    assert_eq!(passed(&gateway, "host.example", "/own").await, 1);
    assert_eq!(passed(&gateway, "host.example", "/free").await, 10);
    assert_eq!(passed(&gateway, "host.example", "/").await, 2);
    assert_eq!(passed(&gateway, "config.example", "/free").await, 10);
    assert_eq!(passed(&gateway, "config.example", "/").await, 3);
    assert_eq!(
        passed(&gateway, "config2.example", "/").await,
        0,
        "one bucket for all"
    );
}

#[tokio::test]
async fn a_bucket_is_not_filled_by_changes_beside_it() {
    let a = Backend::start("a").await;
    let mut own = entry();
    own.effects = limited("route");
    let hosts = [
        host("limited.example", vec![own.clone()]),
        host("free.example", vec![entry()]),
    ];
    let mut others = cluster("a", &[&a]);
    others.push(buckets(None));
    let mut gateway = Gateway::serve(&hosts, others).await;
    assert_eq!(passed(&gateway, "limited.example", "/").await, 1);
    assert_eq!(passed(&gateway, "free.example", "/").await, 10);
    // A neighbour comes, the limited host itself changes, and so does the route configuration.
    own.name = "default/renamed".into();
    gateway
        .publish(vec![
            envoy::virtual_host(&host("new.example", vec![entry()])),
            envoy::virtual_host(&host("limited.example", vec![own])),
        ])
        .await;
    assert_eq!(passed(&gateway, "limited.example", "/").await, 0);
    gateway
        .publish(vec![envoy::route_config(&model::RouteConfig {
            name: RC.into(),
            effects: effects(
                "b",
                vec![Effect::ResponseHeaders(crate::values::set("x", "y"))],
            ),
        })])
        .await;
    assert_eq!(passed(&gateway, "limited.example", "/").await, 0);
    assert_eq!(gateway.get("new.example", "/").await.header("x"), Some("y"));
}
