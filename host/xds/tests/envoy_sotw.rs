//! The server with a real Envoy in the state of the world.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/proxy.rs"]
mod proxy;
mod support;
#[path = "support/world.rs"]
mod world;

use chiton_xds::ResourceType::{self, Cluster, Listener, VirtualHost};
use chiton_xds::{Change, Options, Programmed, ResourceName, Server};
use proxy::{
    SOTW, answers, backend, cluster, endpoints, free_port, leads_to, listener, refused,
    refused_cluster, refused_listener, route_config, until_get,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Running, until};
use world::{GROUP, World, base, gone, load};

/// What the group's proxies reject, by name.
fn rejected(server: &Server) -> Vec<String> {
    let rejections = server.ledger().rejections(GROUP).into_iter();
    rejections.map(|rejection| rejection.name.name).collect()
}

async fn until_rejected(world: &World, expected: &[&str]) {
    until(&world.server, |server| rejected(server) == expected).await;
}

fn name(kind: ResourceType, name: &str) -> ResourceName {
    ResourceName::new(kind, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_adds_changes_and_removes() {
    let world = World::start(SOTW, vec![answers("r", "a.example", "1")]).await;
    until_get(world.port, "a.example", (200, "1")).await;
    until_get(world.port, "nobody.example", (404, "")).await;

    world.publish(vec![answers("r", "b.example", "1")]).await;
    until_get(world.port, "b.example", (200, "1")).await;
    world.publish(vec![answers("r", "a.example", "2")]).await;
    until_get(world.port, "a.example", (200, "2")).await;
    assert_eq!(world.sent(Listener), 1, "unchanged");
    let virtual_hosts = world.server.metrics().resources_sent(VirtualHost);
    assert_eq!(virtual_hosts, 0, "they are in their route configuration");

    world
        .server
        .publish(GROUP, vec![gone(VirtualHost, "r/a.example")]);
    until_get(world.port, "a.example", (404, "")).await;
    until_get(world.port, "b.example", (200, "1")).await;

    // Another listener comes and goes.
    let other = free_port();
    world
        .publish(vec![
            listener("other", other, "s"),
            route_config("s"),
            answers("s", "a.example", "other"),
        ])
        .await;
    until_get(other, "a.example", (200, "other")).await;
    world.server.publish(GROUP, vec![gone(Listener, "other")]);
    world
        .envoy
        .until_stat("listener_manager.total_listeners_active", 1)
        .await;
    until_get(world.port, "b.example", (200, "1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_change_come_and_go_without_a_failed_request() {
    let (first, second) = (backend("first").await, backend("second").await);
    let world = World::start(
        SOTW,
        vec![
            cluster("c0", 1),
            endpoints("c0", first),
            leads_to("r", "a.example", "c0"),
            // Not changed, and repeated in each response.
            cluster("steady", 1),
            endpoints("steady", first),
        ],
    )
    .await;
    world.replace_clusters_under_load(first, second).await;
    until(&world.server, |server| {
        server.ledger().proxies()[0].types[&Cluster].sent == 2
    })
    .await;
    // The old ones are gone, the repeated one is the one that it was.
    world
        .envoy
        .until_stat("cluster_manager.active_clusters", 3)
        .await;
    world
        .envoy
        .until_stat("cluster.steady.update_success", 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_virtual_hosts_hurt_no_neighbour() {
    let world = World::start(
        SOTW,
        vec![
            answers("r", "a.example", "1"),
            answers("r", "b.example", "1"),
        ],
    )
    .await;
    let mut changes: Vec<Change> = (0..10)
        .map(|number| answers("r", &format!("n{number}.example"), "1"))
        .collect();
    changes.push(answers("r", "a.example", "2"));
    let neighbours = changes.clone();
    changes.push(refused("r", "bad.example"));
    changes.push(refused("r", "b.example"));
    world.server.publish(GROUP, changes);
    world.acked(&neighbours).await;
    until_rejected(&world, &["r/b.example", "r/bad.example"]).await;
    until_get(world.port, "a.example", (200, "2")).await;
    until_get(world.port, "n9.example", (200, "1")).await;
    until_get(world.port, "b.example", (200, "1")).await;
    until_get(world.port, "bad.example", (404, "")).await;
    match world
        .server
        .programmed(GROUP, &[name(VirtualHost, "r/bad.example")])
    {
        Programmed::Nacked { text, .. } => assert!(text.contains(":-prefixed"), "{text}"),
        other => panic!("{other:?}"),
    }

    // Others go on, one response a change; it is not sent again until it changes.
    let nacks = world
        .server
        .metrics()
        .nacks(ResourceType::RouteConfiguration);
    let sent = world.sent(ResourceType::RouteConfiguration);
    world.publish(vec![answers("r", "a.example", "3")]).await;
    until_get(world.port, "a.example", (200, "3")).await;
    assert_eq!(world.sent(ResourceType::RouteConfiguration), sent + 1);
    assert_eq!(
        world
            .server
            .metrics()
            .nacks(ResourceType::RouteConfiguration),
        nacks
    );
    world
        .publish(vec![answers("r", "bad.example", "good")])
        .await;
    until_get(world.port, "bad.example", (200, "good")).await;
    until_rejected(&world, &["r/b.example"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_listeners_and_clusters_hurt_no_neighbour() {
    let first = backend("first").await;
    let world = World::start(
        SOTW,
        vec![
            cluster("c", 1),
            endpoints("c", first),
            cluster("was-good", 1),
            endpoints("was-good", first),
            leads_to("r", "a.example", "c"),
            leads_to("r", "b.example", "was-good"),
        ],
    )
    .await;
    let (other, bad) = (free_port(), free_port());
    // Envoy names one and refuses the whole response for the other, without a name.
    let good = vec![
        cluster("c", 2),
        cluster("d", 1),
        endpoints("d", first),
        listener("other", other, "r"),
    ];
    let mut changes = good.clone();
    changes.extend([
        refused_cluster("named-bad"),
        cluster("was-good", -1),
        refused_listener("named-bad", bad),
    ]);
    world.server.publish(GROUP, changes);
    world.acked(&good).await;
    until_rejected(&world, &["named-bad", "was-good", "named-bad"]).await;
    until_get(world.port, "a.example", (200, "first")).await;
    until_get(world.port, "b.example", (200, "first")).await;
    until_get(other, "b.example", (200, "first")).await;

    // What is rejected is in no later response, and what was accepted of it before is in all.
    let nacks = (
        world.server.metrics().nacks(Cluster),
        world.server.metrics().nacks(Listener),
    );
    world.publish(vec![cluster("d", 2)]).await;
    world.server.publish(GROUP, vec![gone(Listener, "other")]);
    world
        .envoy
        .until_stat("listener_manager.total_listeners_active", 1)
        .await;
    until_get(world.port, "b.example", (200, "first")).await;
    assert_eq!(
        (
            world.server.metrics().nacks(Cluster),
            world.server.metrics().nacks(Listener)
        ),
        nacks
    );

    world
        .publish(vec![
            cluster("was-good", 2),
            listener("named-bad", bad, "r"),
        ])
        .await;
    until_get(bad, "b.example", (200, "first")).await;
    until_rejected(&world, &["named-bad"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_takes_nothing_and_brings_what_has_changed() {
    let first = backend("first").await;
    let hosts = vec![
        cluster("c", 1),
        endpoints("c", first),
        leads_to("r", "a.example", "c"),
        answers("r", "b.example", "1"),
        answers("r", "c.example", "1"),
    ];
    let mut world = World::start(SOTW, hosts.clone()).await;
    world.server.stop().await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(load(world.port, "a.example", stop.clone()));

    let server = Server::new(Options::default());
    let mut all = base(world.port);
    all.extend(hosts);
    server.publish(GROUP, all);
    let changed = answers("r", "b.example", "2");
    server.publish(
        GROUP,
        vec![changed.clone(), gone(VirtualHost, "r/c.example")],
    );
    world.server = Running::start_at(server, &world.socket).await;
    until(&world.server, |server| server.metrics().streams() == 1).await;
    until_get(world.port, "c.example", (200, "1")).await;

    world.server.set_all_ready();
    world.acked(&[changed]).await;
    until_get(world.port, "b.example", (200, "2")).await;
    until_get(world.port, "c.example", (404, "")).await;
    until(&world.server, |server| server.is_settled(GROUP)).await;
    stop.store(true, Ordering::Relaxed);
    let (failed, all) = load.await.unwrap();
    assert_eq!(failed, 0, "of {all} requests; {}", world.envoy.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_reconnects_while_rejections_stand_loses_nothing() {
    let first = backend("first").await;
    let mut world = World::start(
        SOTW,
        vec![
            cluster("c", 1),
            endpoints("c", first),
            leads_to("r", "a.example", "c"),
            answers("r", "b.example", "1"),
        ],
    )
    .await;
    world.server.publish(
        GROUP,
        vec![
            refused("r", "b.example"),
            cluster("c", -1),
            refused_listener("l", world.port),
        ],
    );
    until_rejected(&world, &["c", "l", "r/b.example"]).await;

    // The server goes on, on new connections.
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(load(world.port, "a.example", stop.clone()));
    let opened = world.server.metrics().streams_opened();
    let server: Server = world.server.clone();
    world.server.stop().await;
    world.server = Running::start_at(server, &world.socket).await;
    until(&world.server, |server| {
        server.metrics().streams_opened() > opened
    })
    .await;
    until_rejected(&world, &["c", "l", "r/b.example"]).await;
    until_get(world.port, "a.example", (200, "first")).await;
    until_get(world.port, "b.example", (200, "1")).await;
    stop.store(true, Ordering::Relaxed);
    let (failed, all) = load.await.unwrap();
    assert_eq!(failed, 0, "of {all} requests; {}", world.envoy.log());
}
