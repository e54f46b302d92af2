//! Clusters, listeners and filter settings that proxies refuse, and fleets of which one proxy does.

#[allow(dead_code, reason = "every test file needs another part of it")]
mod strict;

use chiton_tests::manifests::policy;
use chiton_tests::{Load, World, http, paths};
use std::net::{Ipv4Addr, TcpListener};
use strict::{Kind, Strict, bad, good, load, on_gateway};

/// Envoy's words for a cluster of a type that it was built without.
const NO_SUCH_CLUSTER: &str = "Didn't find a registered cluster factory";

/// A Backend with one endpoint: an IP address is taken by every proxy, a name is refused by strict
/// ones.
fn backend(name: &str, host: &str, port: &str) -> String {
    format!(
        "apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {{name: {name}}}
spec: {{endpoints: [{{host: {host}, port: {port}}}]}}
---
"
    )
}

/// A Gateway with an HTTP listener on each port.
fn gateway(name: &str, ports: &[u16]) -> String {
    let listener = |port| format!("{{name: p{port}, protocol: HTTP, port: {port}}}");
    let listeners: Vec<String> = ports.iter().map(listener).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec: {{gatewayClassName: chiton, listeners: [{}]}}
---
",
        listeners.join(", ")
    )
}

fn limit(name: &str, requests: u32) -> String {
    let target = format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}");
    let settings = format!("default: {{requests: {requests}, per: second}}");
    policy(name, "rate-limit", &target, &settings)
}

/// Expects the answers of a backend on many connections: more than one proxy may listen.
async fn always_served_by(world: &World, path: &str, backend: &str) -> anyhow::Result<()> {
    for _ in 0..30 {
        let answer = world.get(path).send().await?;
        assert_eq!(answer.backend(), backend, "{path}: {answer:?}");
    }
    Ok(())
}

async fn flawless(loads: impl IntoIterator<Item = Load>) -> anyhow::Result<()> {
    for load in loads {
        load.flawless(50).await?;
    }
    Ok(())
}

async fn clusters(kind: Kind) -> anyhow::Result<()> {
    let routes = good("x", "x") + &good("y", "y");
    let start = backend("x", "127.0.0.1", "$A") + &backend("y", "127.0.0.1", "$A") + &routes;
    let strict = Strict::start_with(&(start + &good("still", "a")), &[kind]).await?;
    let world = &strict.world;
    for path in ["/x", "/y", "/still"] {
        world.served_by(path, "a").await?;
    }
    world.host.programmed("HTTPRoute", "x").await?;
    let loads = ["/x", "/y", "/still"].map(|path| load(world, path));

    let named = |name| backend(name, "localhost", "$B");
    let routes = routes + &good("new", "new");
    let (x, y, new) = (named("x"), named("y"), named("new"));
    world.replace(&(x + &y + &new + &routes + &good("still", "b")))?;
    for (name, served) in [
        ("x", "accepted last is served"),
        ("y", "accepted last is served"),
        ("new", "left out"),
    ] {
        let said = strict.held("Backend", name).await?;
        assert!(said.contains(NO_SUCH_CLUSTER), "{said}");
        assert!(said.contains(served), "{said}");
    }
    world.served_by("/still", "b").await?;
    world.status(&world.get("/new"), 500).await?;
    for path in ["/x", "/y"] {
        always_served_by(world, path, "a").await?;
    }
    for route in ["still", "x"] {
        world.host.programmed("HTTPRoute", route).await?;
    }

    // Others change, and nothing is tried again.
    let refused = world.host.nacks().await?;
    world.replace(&(named("x") + &y + &new + &routes + &good("still", "c")))?;
    world.served_by("/still", "c").await?;
    assert_eq!(world.host.nacks().await?, refused, "it was tried again");

    let mended = |name| backend(name, "127.0.0.1", "$C");
    world.replace(&(mended("x") + &y + &mended("new") + &routes + &good("still", "c")))?;
    world.served_by("/x", "c").await?;
    world.served_by("/new", "c").await?;
    world.host.programmed("HTTPRoute", "new").await?;
    strict.held("Backend", "y").await?;
    always_served_by(world, "/y", "a").await?;
    flawless(loads).await?;
    strict.stop().await
}

#[tokio::test]
async fn backends_whose_clusters_are_refused_are_held() -> anyhow::Result<()> {
    clusters(Kind::Strict).await
}

#[tokio::test]
async fn in_the_state_of_the_world_the_same_backends_are_held() -> anyhow::Result<()> {
    clusters(Kind::StrictSotw).await
}

async fn listeners(kind: Kind) -> anyhow::Result<()> {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let taken_port = taken.local_addr()?.port();
    let [first, second] = paths::free_ports()?;
    let routes = good("still", "a") + &on_gateway("other", "o", "a") + &on_gateway("new", "n", "a");
    let strict = Strict::start_with(&(gateway("other", &[first]) + &routes), &[kind]).await?;
    let world = &strict.world;
    let on = |port, path: &str| http::get(port, path);
    world.status(&on(first, "/o"), 200).await?;
    world.served_by("/still", "a").await?;
    world.host.programmed("Gateway", "other").await?;
    let loads = [
        load(world, "/still"),
        Load::start(first, &on(first, "/o"), 2, 50),
    ];

    // A port that another process has; one Gateway has served before, one has not.
    let new = gateway("new", &[taken_port]);
    world.replace(&(gateway("other", &[first, second, taken_port]) + &routes))?;
    let said = strict.held("Gateway", "other").await?;
    assert!(said.contains("Address already in use"), "{said}");
    assert!(said.contains("accepted last is served"), "{said}");
    world.replace(&(gateway("other", &[first, second]) + &new + &routes))?;
    let said = strict.held("Gateway", "new").await?;
    assert!(
        said.contains("Address already in use") && said.contains("left out"),
        "{said}"
    );
    world.host.programmed("Gateway", "other").await?;
    world.status(&on(second, "/o"), 200).await?;
    world.replace(&(gateway("other", &[first, second]) + &new + &routes + &good("more", "b")))?;
    world.served_by("/more", "b").await?;
    world.host.programmed("Gateway", "gateway").await?;

    drop(taken);
    let mended = gateway("new", &[taken_port]).replace("name: p", "name: q");
    world.replace(&(gateway("other", &[first, second]) + &mended + &routes))?;
    world.status(&on(taken_port, "/n"), 200).await?;
    world.host.programmed("Gateway", "new").await?;
    flawless(loads).await?;
    strict.stop().await
}

#[tokio::test]
async fn a_gateway_whose_port_is_taken_is_held() -> anyhow::Result<()> {
    listeners(Kind::Strict).await
}

#[tokio::test]
async fn in_the_state_of_the_world_the_same_gateway_is_held() -> anyhow::Result<()> {
    listeners(Kind::StrictSotw).await
}

/// Envoy takes all filter settings that there can be here: so it is a client that refuses some.
#[tokio::test]
async fn policies_whose_filter_settings_are_refused_are_held() -> anyhow::Result<()> {
    let names = ["one", "two", "three", "four"];
    let routes: String = names.map(|name| good(name, "a")).concat();
    let mut strict = Strict::start_with(&(limit("one", 1_000) + &routes), &[Kind::Plain]).await?;
    strict.add_refusing("TypedExtensionConfig:_default_t")?;
    strict.connected().await?;
    let world = &strict.world;
    world.host.programmed("Policy", "one").await?;
    let loads = names.map(|name| load(world, &format!("/{name}")));

    let all: String = names.map(|name| limit(name, 1_000)).concat();
    world.replace(&(all.clone() + &routes))?;
    for name in ["two", "three"] {
        let said = strict.held("Policy", name).await?;
        assert!(said.contains("rate-limit_"), "{said}");
        assert!(said.contains("rawads was told to refuse this"), "{said}");
    }
    for name in ["one", "four"] {
        world.host.programmed("Policy", name).await?;
    }
    world.replace(&(all.clone() + &routes + &good("more", "b")))?;
    world.served_by("/more", "b").await?;
    world.host.programmed("HTTPRoute", "more").await?;

    // What changes is tried again, and nothing else.
    let elsewhere = limit("two", 1_000).replace("name: two}]", "name: more}]");
    let changed = all.replace(&limit("two", 1_000), &elsewhere);
    assert_ne!(changed, all);
    world.replace(&(changed + &routes + &good("more", "b")))?;
    world.host.programmed("Policy", "two").await?;
    strict.held("Policy", "three").await?;
    flawless(loads).await?;
    strict.stop().await
}

#[tokio::test]
async fn what_one_of_two_proxies_refuses_is_held_for_both() -> anyhow::Result<()> {
    let start = backend("x", "127.0.0.1", "$A") + &good("x", "x") + &good("turn", "a");
    let kinds = [Kind::Plain, Kind::Strict];
    let strict = Strict::start_with(&(start + &good("still", "a")), &kinds).await?;
    strict.connected().await?;
    let world = &strict.world;
    for name in ["x", "turn", "still"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    let loads = ["/x", "/turn", "/still"].map(|path| load(world, path));

    let x = backend("x", "localhost", "$B") + &good("x", "x");
    world.replace(&(x.clone() + &bad("turn") + &good("still", "b")))?;
    let said = strict.held("Backend", "x").await?;
    assert!(said.contains(NO_SUCH_CLUSTER), "{said}");
    let said = strict.held("HTTPRoute", "turn").await?;
    assert!(said.contains("max program size"), "{said}");
    for name in ["still", "x"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    always_served_by(world, "/still", "b").await?;
    always_served_by(world, "/x", "a").await?;
    always_served_by(world, "/turn", "a").await?;

    for backend in ["c", "a", "c"] {
        world.replace(&(x.clone() + &bad("turn") + &good("still", backend)))?;
        world.served_by("/still", backend).await?;
        world.host.programmed("HTTPRoute", "still").await?;
        always_served_by(world, "/still", backend).await?;
    }
    let mended = backend("x", "127.0.0.1", "$C") + &good("x", "x");
    world.replace(&(mended + &good("turn", "c") + &good("still", "c")))?;
    for (path, name) in [("/x", "x"), ("/turn", "turn")] {
        world.served_by(path, "c").await?;
        world.host.programmed("HTTPRoute", name).await?;
        always_served_by(world, path, "c").await?;
    }
    flawless(loads).await?;
    strict.stop().await
}

#[tokio::test]
async fn a_proxy_that_comes_later_and_refuses_takes_nothing_from_the_others() -> anyhow::Result<()>
{
    let start = backend("x", "localhost", "$A") + &good("x", "x") + &bad("turn");
    let start = start + &good("still", "a");
    let mut strict = Strict::start_with(&start, &[Kind::Plain]).await?;
    for name in ["x", "turn", "still"] {
        strict.world.host.programmed("HTTPRoute", name).await?;
    }
    strict.add(Kind::Strict).await?;
    strict.connected().await?;
    let world = &strict.world;
    let said = world
        .host
        .condition("HTTPRoute", "turn", "Programmed", "False")
        .await?;
    assert!(said.contains("max program size"), "{said}");
    let said = world
        .host
        .condition("HTTPRoute", "x", "Programmed", "False")
        .await?;
    assert!(said.contains(NO_SUCH_CLUSTER), "{said}");

    // It never had what they have, so what it says is no verdict on what changes.
    for backend in ["b", "c"] {
        world.replace(&start.replace("name: a}", &format!("name: {backend}}}")))?;
        world.served_by("/still", backend).await?;
    }
    let named = backend("x", "localhost", "$B");
    let named = start.replace(&backend("x", "localhost", "$A"), &named);
    world.replace(&named)?;
    world.served_by("/x", "b").await?;
    for (kind, name) in [
        ("HTTPRoute", "still"),
        ("HTTPRoute", "turn"),
        ("Backend", "x"),
    ] {
        let object = world.host.object(kind, name).await?;
        assert!(!object.to_string().contains("Rejected"), "{object:#}");
    }

    // What it refuses changes, and it has everything.
    world.replace(
        &named
            .replace("localhost", "127.0.0.1")
            .replace("{0,60}", "{0,6}"),
    )?;
    for name in ["x", "turn", "still"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    always_served_by(world, "/still", "a").await?;
    strict.stop().await
}
