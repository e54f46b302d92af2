//! The server with a real Envoy, which connects by a unix socket.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/proxy.rs"]
mod proxy;
mod support;
#[path = "support/world.rs"]
mod world;

use chiton_xds::ResourceType::{Cluster, Listener, RouteConfiguration, VirtualHost};
use chiton_xds::{Change, Options, Programmed, ResourceName, Server};
use proxy::{
    DELTA, answers, backend, cluster, endpoints, free_port, leads_to, listener, refused,
    route_config, until_get,
};
use support::{Running, until};
use world::{GROUP, INERT, World, base, gone};

#[tokio::test(flavor = "multi_thread")]
async fn serves_changes_exactly_one_and_removes() {
    let world = World::start(
        DELTA,
        vec![
            answers("r", "a.example", "1"),
            answers("r", "b.example", "1"),
        ],
    )
    .await;
    until_get(world.port, "a.example", (200, "1")).await;
    until_get(world.port, "nobody.example", (404, "")).await;

    let before = world.sent(VirtualHost);
    world.publish(vec![answers("r", "a.example", "2")]).await;
    until_get(world.port, "a.example", (200, "2")).await;
    assert_eq!(world.sent(VirtualHost) - before, 1);
    assert_eq!(world.sent(Listener), 1);
    assert_eq!(world.sent(RouteConfiguration), 1);

    world.publish(vec![gone(VirtualHost, "r/a.example")]).await;
    until_get(world.port, "a.example", (404, "")).await;
    until_get(world.port, "b.example", (200, "1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_sends_only_differences() {
    let hosts = ["a", "b", "c"].map(|name| answers("r", &format!("{name}.example"), "1"));
    let mut world = World::start(DELTA, hosts.to_vec()).await;
    world.server.stop().await;

    let server = Server::new(Options::default());
    let mut all = base(world.port);
    all.extend(hosts);
    server.publish(GROUP, all);
    let changed = answers("r", "a.example", "2");
    server.publish(
        GROUP,
        vec![changed.clone(), gone(VirtualHost, "r/c.example")],
    );
    world.server = Running::start_at(server, &world.socket).await;
    until(&world.server, |server| server.metrics().streams() == 1).await;
    until_get(world.port, "c.example", (200, "1")).await;

    world.server.set_all_ready();
    world.acked(&[changed]).await;
    until_get(world.port, "a.example", (200, "2")).await;
    until_get(world.port, "c.example", (404, "")).await;
    until_get(world.port, "b.example", (200, "1")).await;
    let metrics = world.server.metrics();
    assert_eq!(metrics.resources_sent(VirtualHost), 1);
    assert_eq!(metrics.resources_removed(VirtualHost), 1);
    for kind in [Cluster, Listener, RouteConfiguration] {
        assert_eq!(metrics.resources_sent(kind), 0, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_config_that_comes_back_gets_all_its_virtual_hosts() {
    let all = |port| {
        let mut all = base(port);
        all.push(answers("r", "a.example", "1"));
        all
    };
    let world = World::start(DELTA, vec![answers("r", "a.example", "1")]).await;
    // Another listener, whose route configuration stays.
    let other = free_port();
    world
        .publish(vec![
            listener("other", other, "s"),
            route_config("s"),
            answers("s", "a.example", "other"),
        ])
        .await;
    let removed = [
        gone(Listener, "l"),
        gone(RouteConfiguration, "r"),
        gone(VirtualHost, INERT),
        gone(VirtualHost, "r/a.example"),
    ];
    // Once at once, while Envoy still drains, and once when it has forgotten everything.
    for drained in [false, true] {
        let before = world.sent(VirtualHost);
        world.server.publish(GROUP, removed.to_vec());
        until(&world.server, |server| {
            server.ledger().proxies()[0].types[&Listener].sent == 1
        })
        .await;
        if drained {
            world
                .envoy
                .until_stat("listener_manager.total_listeners_draining", 0)
                .await;
            world
                .envoy
                .until_stat("listener_manager.total_listeners_active", 1)
                .await;
        }
        world.publish(all(world.port)).await;
        until_get(world.port, "a.example", (200, "1")).await;
        assert!(world.sent(VirtualHost) - before >= 2, "drained: {drained}");
        until_get(other, "a.example", (200, "other")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_told_and_hurts_no_neighbour() {
    let world = World::start(DELTA, vec![answers("r", "a.example", "1")]).await;
    let neighbours: Vec<Change> = (0..10)
        .map(|number| answers("r", &format!("n{number}.example"), "1"))
        .collect();
    let mut changes = neighbours.clone();
    changes.push(refused("r", "bad.example"));
    changes.push(answers("r", "a.example", "2"));
    world.server.publish(GROUP, changes);
    world.acked(&neighbours).await;
    until_get(world.port, "a.example", (200, "2")).await;
    until_get(world.port, "n9.example", (200, "1")).await;

    let bad = [ResourceName::new(VirtualHost, "r/bad.example")];
    let is_nacked = |server: &Server| match server.programmed(GROUP, &bad) {
        Programmed::Nacked { name, text } => name == bad[0] && text.contains(":-prefixed"),
        _ => false,
    };
    until(&world.server, is_nacked).await;
    let nacks = &world.server.ledger().proxies()[0].nacks;
    assert_eq!(nacks.len(), 1, "{nacks:?}");

    // Others go on, and it is not sent again until it changes.
    let (sent, rejected) = (
        world.sent(VirtualHost),
        world.server.metrics().nacks(VirtualHost),
    );
    world.publish(vec![answers("r", "a.example", "3")]).await;
    assert_eq!(world.sent(VirtualHost), sent + 1);
    assert_eq!(world.server.metrics().nacks(VirtualHost), rejected);
    world
        .publish(vec![answers("r", "bad.example", "good")])
        .await;
    until_get(world.port, "bad.example", (200, "good")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_change_come_and_go_without_a_failed_request() {
    let (first, second) = (backend("first").await, backend("second").await);
    let world = World::start(
        DELTA,
        vec![
            cluster("c0", 1),
            endpoints("c0", first),
            leads_to("r", "a.example", "c0"),
        ],
    )
    .await;
    world.replace_clusters_under_load(first, second).await;
    until(&world.server, |server| {
        server.ledger().proxies()[0].types[&Cluster].sent == 1
    })
    .await;
}
