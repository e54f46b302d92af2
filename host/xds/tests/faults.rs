//! What is left of a broken connection: a real Envoy, and a raw client, on a way to the server that
//! is cut, slow, or silent without being closed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/faulty.rs"]
mod faulty;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/world.rs"]
mod world;

use chiton_xds::ResourceType::{Cluster, Endpoints, Listener, RouteConfiguration, VirtualHost};
use chiton_xds::{Change, Options, Programmed, Resource, ResourceName};
use faulty::Way;
use proxy::{DELTA, Manner, SOTW, backend, cluster, endpoints, leads_to, until_get};
use remote::{Remote, host, hosts, hosts_and_clusters};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Raw, Running, names, until};
use tempfile::TempDir;
use world::{GROUP, gone, load};

/// What changes while the way is cut: 3 hosts changed, 1 new, 2 removed, a cluster for another.
fn changes() -> Vec<Change> {
    let mut changes: Vec<Change> = (0..3).map(|number| host(number, "2")).collect();
    changes.extend([
        host(20, "1"),
        gone(VirtualHost, "r/h3.example"),
        gone(VirtualHost, "r/h4.example"),
        cluster("new", 1),
        endpoints("new", 1),
        gone(Cluster, "old"),
        gone(Endpoints, "old"),
    ]);
    changes
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_cut_only_what_changed_meanwhile_is_sent() {
    let world = Remote::start(DELTA, Options::default(), hosts_and_clusters()).await;
    let kinds = [
        VirtualHost,
        Cluster,
        Endpoints,
        Listener,
        RouteConfiguration,
    ];
    let before = kinds.map(|kind| world.sent(kind));
    world.way.cut();
    world.until_streams(0).await;
    world.server.publish(GROUP, changes());
    assert_eq!(world.programmed(), Programmed::NoProxy);

    world.way.mend();
    world.settle().await;
    let after = kinds.map(|kind| world.sent(kind));
    let differences: Vec<(u64, u64)> = std::iter::zip(before, after)
        .map(|(before, after)| (after.0 - before.0, after.1 - before.1))
        .collect();
    // Envoy unsubscribes from the endpoints of a cluster that is gone, or is told: both are right.
    assert_eq!(differences[..2], [(4, 2), (1, 1)]);
    assert_eq!(differences[2].0, 1, "endpoints");
    assert_eq!(
        differences[3..],
        [(0, 0), (0, 0)],
        "listener and route config"
    );
}

/// In the state of the world a client that returns is sent everything, once.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_cut_the_state_of_the_world_is_that_of_now() {
    let world = Remote::start(SOTW, Options::default(), hosts_and_clusters()).await;
    let kinds = [Cluster, Endpoints, Listener, RouteConfiguration];
    let before = kinds.map(|kind| world.sent(kind).0);
    world.way.cut();
    world.until_streams(0).await;
    world.server.publish(GROUP, changes());
    assert_eq!(world.programmed(), Programmed::NoProxy);

    world.way.mend();
    world.settle().await;
    let after = kinds.map(|kind| world.sent(kind).0);
    let sent: Vec<u64> = std::iter::zip(before, after)
        .map(|(before, after)| after - before)
        .collect();
    // Clusters twice: once with that which is gone, until no route leads there.
    assert_eq!(sent, [5, 2, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_loses_nothing_and_folds() {
    let world = Remote::start(DELTA, Options::default(), hosts()).await;
    let before = world.sent(VirtualHost);
    world.way.hold();
    for round in 2..32 {
        world
            .server
            .publish(GROUP, vec![host(0, &round.to_string())]);
        if round == 2 {
            // The first goes out at once; the others have to wait for its answer.
            until_sent(&world, before.0 + 1).await;
        }
    }
    world
        .server
        .publish(GROUP, vec![gone(VirtualHost, "r/h1.example")]);
    assert_eq!(world.programmed(), Programmed::Pending);
    world.way.mend();
    world.settle().await;
    let after = world.sent(VirtualHost);
    // Two, but for a pause that became so long that the server stopped waiting for the answer.
    let sent = after.0 - before.0;
    assert!((2..=4).contains(&sent), "{sent} for 30 changes of one host");
    assert_eq!(after.1 - before.1, 1);
    assert_eq!(
        world.server.metrics().streams_opened(),
        1,
        "the same stream"
    );
}

async fn until_sent(world: &Remote, count: u64) {
    let wait = async {
        while world.sent(VirtualHost).0 < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    support::soon("a response is sent", wait).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_closed_and_nobody_claims_what_it_was_sent() {
    let options = Options {
        keepalive_interval: Duration::from_millis(300),
        keepalive_timeout: Duration::from_millis(300),
        ..Options::default()
    };
    let world = Remote::start(DELTA, options, hosts()).await;
    let before = world.sent(VirtualHost);
    world.way.hold();
    let changed = host(0, "2");
    let name = [changed.name().clone()];
    world.server.publish(GROUP, vec![changed]);
    // Pending while the stream looks alive, then nobody is there; never acknowledged.
    until(&world.server, |server| {
        let programmed = server.programmed(GROUP, &name);
        assert_ne!(programmed, Programmed::Acked, "Envoy has not got it");
        server.metrics().streams() == 0
    })
    .await;
    assert_eq!(world.server.programmed(GROUP, &name), Programmed::NoProxy);
    until_get(world.port, "h0.example", (200, "1")).await;

    world
        .server
        .publish(GROUP, vec![gone(VirtualHost, "r/h1.example")]);
    world.way.mend();
    world.settle().await;
    until_get(world.port, "h0.example", (200, "2")).await;
    let after = world.sent(VirtualHost);
    // Once more if what was under way did not arrive after all.
    let sent = after.0 - before.0;
    assert!((1..=2).contains(&sent), "{sent} for one changed host");
    assert_eq!(after.1 - before.1, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_finds_another_way_is_not_held_back_by_its_dead_stream() {
    let options = Options {
        keepalive_interval: Duration::from_secs(1),
        keepalive_timeout: Duration::from_secs(1),
        ..Options::default()
    };
    let manner = Manner {
        keepalive: "0.3s",
        ..DELTA
    };
    let world = Remote::start(manner, options, hosts()).await;
    world.way.strand();
    world.server.publish(GROUP, changes());
    // Envoy notices by its own keepalive, the server by its.
    world.settle().await;
    world.until_streams(1).await;
    assert!(world.server.metrics().streams_opened() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_come_and_go_over_a_slow_and_broken_way_without_a_failed_request() {
    clusters_come_and_go(DELTA).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_they_do_in_the_state_of_the_world() {
    clusters_come_and_go(SOTW).await;
}

async fn clusters_come_and_go(manner: Manner) {
    let port = backend("up").await;
    let start = vec![
        cluster("c0", 1),
        endpoints("c0", port),
        leads_to("r", "a.example", "c0"),
    ];
    let world = Remote::start(manner, Options::default(), start).await;
    until_get(world.port, "a.example", (200, "up")).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(load(world.port, "a.example", stop.clone()));
    for round in 0..6 {
        let (old, new) = (format!("c{round}"), format!("c{}", round + 1));
        world.way.slow(Duration::from_millis(30));
        // Also while nobody is there to be told.
        if round == 2 || round == 5 {
            world.way.cut();
            world.until_streams(0).await;
        }
        world.server.publish(
            GROUP,
            vec![
                cluster(&new, 1),
                endpoints(&new, port),
                leads_to("r", "a.example", &new),
                gone(Cluster, &old),
                gone(Endpoints, &old),
            ],
        );
        if round % 2 == 1 {
            world.way.cut();
            world.until_streams(0).await;
        }
        if round > 0 && round != 4 {
            world.way.mend();
        }
        world.settle().await;
    }
    stop.store(true, Ordering::Relaxed);
    let (failed, all) = load.await.unwrap();
    assert_eq!(failed, 0, "of {all} requests; {}", world.envoy.log());
    assert!(all > 0);
}

fn put(name: &str, body: &str) -> Change {
    Change::Put(Resource::new(Listener, name, body.to_owned()))
}

#[tokio::test]
async fn a_client_that_was_cut_off_before_it_answered_is_told_again_and_what_is_gone() {
    let folder = TempDir::new().unwrap();
    let server = Running::start(Options::default()).await;
    let way = Way::open(&folder.path().join("way.sock"), server.address());
    server.publish(GROUP, vec![put("a", "1"), put("b", "1"), put("c", "1")]);
    server.set_all_ready();
    let mut client = Raw::connect(&way.address(), "node", GROUP).await;
    client.subscribe(Listener, &[]).await;
    let first = client.ack_next().await;
    let version = |name: &str| {
        let resource = first
            .resources
            .iter()
            .find(|resource| resource.name == name);
        resource.expect("it was sent").version.clone()
    };
    let has = [
        ("a", &*version("a")),
        ("b", &version("b")),
        ("c", &version("c")),
    ];

    server.publish(GROUP, vec![put("a", "2")]);
    assert_eq!(names(&client.next().await), ["a"]);
    way.cut();
    until(&server, |server| server.metrics().streams() == 0).await;
    let name = [ResourceName::new(Listener, "a")];
    assert_eq!(server.programmed(GROUP, &name), Programmed::NoProxy);
    server.publish(GROUP, vec![gone(Listener, "b")]);
    way.mend();

    let mut client = Raw::connect(&way.address(), "node", GROUP).await;
    client.reconnect(Listener, &[], &has).await;
    let response = client.next().await;
    assert_eq!(names(&response), ["a"]);
    assert_eq!(response.removed_resources, ["b"]);
    assert_eq!(server.programmed(GROUP, &name), Programmed::Pending);
    client.ack(&response).await;
    until(&server, |server| {
        server.programmed(GROUP, &name) == Programmed::Acked
    })
    .await;
}
