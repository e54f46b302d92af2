//! Hostnames of listeners and routes, with real requests.

use chiton_tests::manifests::{named_rule, prefix, route_with};
use chiton_tests::{World, http, paths};

/// A Gateway of its own with these listeners (name and hostname; empty: any) on one port.
fn gateway(port: u16, listeners: &[(&str, &str)]) -> String {
    let listeners: Vec<String> = listeners
        .iter()
        .map(|(name, hostname)| {
            let hostname = match *hostname {
                "" => String::new(),
                hostname => format!(", hostname: '{hostname}'"),
            };
            format!("{{name: {name}, protocol: HTTP, port: {port}{hostname}}}")
        })
        .collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: hosts}}
spec: {{gatewayClassName: chiton, listeners: [{}]}}
---
",
        listeners.join(", ")
    )
}

/// A route that is served as it is named, at a listener of the Gateway `hosts`.
fn at(listener: &str, name: &str, hostnames: &str, path: &str) -> String {
    route_with(
        name,
        &format!(
            "parentRefs: [{{name: hosts, sectionName: {listener}}}]\n  hostnames: [{hostnames}]"
        ),
        &named_rule(name, &prefix(path)),
    )
}

/// Requests to a port: host, path, and the rule that must take it; empty: none, 404.
async fn check(port: u16, cases: &[(&str, &str, &str)]) -> anyhow::Result<()> {
    for (host, path, rule) in cases {
        let answer = http::get(port, path).host(host).send().await?;
        let expected = if rule.is_empty() { 404 } else { 200 };
        let found = (answer.status.as_u16(), answer.seen("x-rule"));
        assert_eq!(found, (expected, (*rule).to_owned()), "{host}{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_hostname_belongs_to_the_most_specific_listener() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let listeners = [
        ("any", ""),
        ("wild", "*.example.com"),
        ("exact", "www.example.com"),
        ("empty", "empty.example.com"),
    ];
    let manifests = [
        gateway(port, &listeners),
        at("any", "on-any", "", "/"),
        at("wild", "on-wild", "", "/"),
        at("exact", "on-exact", "", "/exact"),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for name in ["on-any", "on-wild", "on-exact"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    let with_port = format!("www.example.com:{port}");
    check(
        port,
        &[
            ("elsewhere.org", "/", "on-any"),
            ("example.com", "/", "on-any"),
            ("x.example.com", "/", "on-wild"),
            ("x.y.example.com", "/", "on-wild"),
            ("www.example.com", "/exact", "on-exact"),
            ("WWW.Example.COM", "/exact", "on-exact"),
            (&with_port, "/exact", "on-exact"),
            // Nothing falls through to a less specific listener.
            ("www.example.com", "/", ""),
            ("empty.example.com", "/", ""),
        ],
    )
    .await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_route_serves_the_hostnames_that_its_listener_has_too() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let manifests = [
        gateway(
            port,
            &[("wild", "*.example.com"), ("exact", "www.other.org")],
        ),
        at("wild", "one", "one.example.com, one.not-meant.org", "/"),
        at("wild", "deep", "'*.deep.example.com'", "/"),
        at("wild", "whole", "'*.example.com'", "/"),
        // More specific than `whole`, so its longer path does not matter.
        at("wild", "longer", "'*.example.com'", "/long/path"),
        at("exact", "wider", "'*.other.org', '*.example.com'", "/"),
        at("exact", "nothing", "www.example.com", "/"),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for name in ["one", "deep", "whole", "longer", "wider"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    check(
        port,
        &[
            ("one.example.com", "/", "one"),
            ("one.example.com", "/long/path", "one"),
            ("two.example.com", "/", "whole"),
            ("two.example.com", "/long/path", "longer"),
            ("x.deep.example.com", "/", "deep"),
            ("deep.example.com", "/", "whole"),
            ("www.other.org", "/", "wider"),
            ("api.other.org", "/", ""),
            ("one.not-meant.org", "/", ""),
            ("example.com", "/", ""),
            ("unknown.net", "/", ""),
        ],
    )
    .await?;
    let reason = world
        .host
        .condition("HTTPRoute", "nothing", "Accepted", "False")
        .await?;
    assert!(reason.starts_with("NoMatchingListenerHostname"), "{reason}");
    world.host.stop().await
}

#[tokio::test]
async fn a_listener_that_comes_takes_its_hostname_and_gives_it_back() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let route = at("any", "wide", "", "/");
    let before = gateway(port, &[("any", "")]) + &route;
    let world = World::start(&before).await?;
    let ask = http::get(port, "/").host("new.example.com");
    world.status(&ask, 200).await?;
    world.replace(&(gateway(port, &[("any", ""), ("new", "new.example.com")]) + &route))?;
    world.status(&ask, 404).await?;
    check(port, &[("old.example.com", "/", "wide")]).await?;
    world.replace(&before)?;
    world.status(&ask, 200).await?;
    world.host.stop().await
}
