//! What is left of a broken connection: a real Envoy, and a raw client, on a way to the server that
//! is cut, slow, or silent without being closed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/faulty.rs"]
mod faulty;
#[path = "support/proxy.rs"]
mod proxy;
mod support;

use chiton_xds::ResourceType::{
    self, Cluster, Endpoints, Listener, RouteConfiguration, VirtualHost,
};
use chiton_xds::{Change, Options, Programmed, Resource, ResourceName};
use faulty::Way;
use proxy::{
    DELTA, Envoy, Manner, SOTW, answers, backend, cluster, does, endpoints, free_port, get,
    leads_to, listener, port_of, route_config, until_get,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{PATIENCE, Raw, Running, names, until};
use tempfile::TempDir;

const GROUP: &str = "g";

/// A server, an Envoy that reaches it by a way that can be disturbed, and a port for a listener.
struct World {
    server: Running,
    envoy: Envoy,
    way: Way,
    port: u16,
    _folder: TempDir,
}

impl World {
    /// Envoy serves `changes` on listener `l` with route configuration `r`.
    async fn start(manner: Manner, options: Options, changes: Vec<Change>) -> Self {
        let folder = TempDir::new().unwrap();
        let server = Running::start(options).await;
        let socket = folder.path().join("way.sock");
        let way = Way::open(&socket, server.address());
        let port = free_port();
        server.publish(GROUP, vec![listener("l", port, "r"), route_config("r")]);
        server.publish(GROUP, changes);
        server.set_all_ready();
        let envoy = Envoy::start_as(manner, folder.path(), &socket).await;
        let world = Self {
            server,
            envoy,
            way,
            port,
            _folder: folder,
        };
        world.settle().await;
        world
    }

    /// Envoy has exactly what is published, and has acknowledged it.
    async fn settle(&self) {
        let published = self.server.resources(GROUP);
        let of = |kind| {
            let resources = published.iter();
            resources.filter(move |resource| resource.name.kind == kind)
        };
        let hosts: BTreeMap<String, String> = of(VirtualHost)
            .map(|resource| (resource.name.name.clone(), does(resource)))
            .collect();
        let clusters: BTreeMap<String, u64> = of(Endpoints)
            .map(|resource| (resource.name.name.clone(), port_of(resource)))
            .collect();
        let mut has = (BTreeMap::new(), BTreeMap::new());
        let wait = async {
            loop {
                has = (
                    self.envoy.virtual_hosts().await,
                    self.envoy.clusters().await,
                );
                if has.0 == hosts && has.1 == clusters {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(PATIENCE, wait).await;
        assert!(
            result.is_ok(),
            "published: {hosts:#?} {clusters:?}, but Envoy has {has:#?}; {}",
            self.envoy.log()
        );
        until(&self.server, |_| self.programmed() == Programmed::Acked).await;
    }

    /// Of all that is published.
    fn programmed(&self) -> Programmed {
        let published = self.server.resources(GROUP);
        let names: Vec<ResourceName> = published.into_iter().map(|r| r.name).collect();
        self.server.programmed(GROUP, &names)
    }

    async fn until_streams(&self, count: u64) {
        until(&self.server, |server| server.metrics().streams() == count).await;
    }

    /// Resources sent and removed so far.
    fn sent(&self, kind: ResourceType) -> (u64, u64) {
        let metrics = self.server.metrics();
        (
            metrics.resources_sent(kind),
            metrics.resources_removed(kind),
        )
    }
}

fn gone(kind: ResourceType, name: &str) -> Change {
    Change::Remove(ResourceName::new(kind, name))
}

fn host(number: usize, body: &str) -> Change {
    answers("r", &format!("h{number}.example"), body)
}

fn hosts() -> Vec<Change> {
    (0..20).map(|number| host(number, "1")).collect()
}

/// Hosts and two clusters without endpoints.
fn hosts_and_clusters() -> Vec<Change> {
    let mut all = hosts();
    for name in ["kept", "old"] {
        all.extend([cluster(name, 1), endpoints(name, 1)]);
    }
    all
}

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
    let world = World::start(DELTA, Options::default(), hosts_and_clusters()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_loses_nothing_and_folds() {
    let world = World::start(DELTA, Options::default(), hosts()).await;
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

async fn until_sent(world: &World, count: u64) {
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
    let world = World::start(DELTA, options, hosts()).await;
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
    let world = World::start(manner, options, hosts()).await;
    world.way.strand();
    world.server.publish(GROUP, changes());
    // Envoy notices by its own keepalive, the server by its.
    world.settle().await;
    world.until_streams(1).await;
    assert!(world.server.metrics().streams_opened() >= 2);
}

/// Requests one after the other until told to stop; returns how many failed and how many there were.
async fn load(port: u16, host: &'static str, stop: Arc<AtomicBool>) -> (usize, usize) {
    let address = format!("127.0.0.1:{port}");
    let (mut failed, mut all) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let answer = get(&address, host, "/").await;
        failed += usize::from(answer.is_none_or(|(status, _)| status != 200));
        all += 1;
    }
    (failed, all)
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_come_and_go_over_a_slow_and_broken_way_without_a_failed_request() {
    let port = backend("up").await;
    let start = vec![
        cluster("c0", 1),
        endpoints("c0", port),
        leads_to("r", "a.example", "c0"),
    ];
    let world = World::start(DELTA, Options::default(), start).await;
    until_get(world.port, "a.example", (200, "up")).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(load(world.port, "a.example", stop.clone()));
    for round in 0..6 {
        let (old, new) = (format!("c{round}"), format!("c{}", round + 1));
        world.way.slow(Duration::from_millis(30));
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
            world.way.mend();
        }
        world.settle().await;
    }
    stop.store(true, Ordering::Relaxed);
    let (failed, all) = load.await.unwrap();
    assert_eq!(failed, 0, "of {all} requests; {}", world.envoy.log());
    assert!(all > 0);
}

/// Numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    /// Below `end`.
    fn below(&mut self, end: u64) -> u64 {
        // Knuth's MMIX generator; its upper bits are good.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Random changes and faults; at the end Envoy has exactly what is published.
async fn history(manner: Manner, seed: u64, steps: usize) {
    println!("seed {seed}, {manner:?}");
    let mut random = Random(seed);
    let options = Options {
        keepalive_interval: Duration::from_millis(500),
        keepalive_timeout: Duration::from_millis(500),
        ..Options::default()
    };
    let world = World::start(manner, options, hosts_and_clusters()).await;
    for step in 0..steps {
        match random.below(10) {
            0 => world.way.cut(),
            1 => world.way.hold(),
            2 => world.way.slow(Duration::from_millis(random.below(30))),
            3 | 4 => world.way.mend(),
            5 => world.settle_if_mended(&mut random).await,
            _ => {
                let changes = (0..=random.below(4)).flat_map(|_| change(&mut random, step));
                world.server.publish(GROUP, changes.collect());
            }
        }
        // Long enough for something to be under way, not for it to be over.
        tokio::time::sleep(Duration::from_millis(random.below(40))).await;
    }
    world.way.mend();
    world.settle().await;
    if manner.api_type == DELTA.api_type {
        assert_eq!(world.sent(Listener), (1, 0), "it never changed");
        assert_eq!(world.sent(RouteConfiguration), (1, 0), "it never changed");
    }
}

/// One random change of a host or a cluster.
fn change(random: &mut Random, step: usize) -> Vec<Change> {
    let number = usize::try_from(random.below(25)).expect("small");
    let name = format!("x{}", number % 5);
    match random.below(5) {
        0 => vec![gone(VirtualHost, &format!("r/h{number}.example"))],
        1 => vec![
            cluster(&name, 1 + i64::try_from(step).expect("small")),
            endpoints(&name, 1),
        ],
        2 => vec![gone(Cluster, &name), gone(Endpoints, &name)],
        _ => vec![host(number, &step.to_string())],
    }
}

impl World {
    async fn settle_if_mended(&self, random: &mut Random) {
        if random.below(2) == 0 {
            self.way.mend();
            self.settle().await;
        }
    }
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let random = now.expect("after 1970").subsec_nanos().into();
    std::env::var("CHITON_SEED").map_or(random, |seed| seed.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_history_of_faults_ends_in_what_is_published() {
    history(DELTA, seed(), 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_history_of_faults_ends_in_what_is_published_in_the_state_of_the_world_too() {
    history(SOTW, seed(), 60).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "soak"]
async fn random_histories_of_faults_end_in_what_is_published() {
    let seed = seed();
    for number in 0..30 {
        history(DELTA, seed.wrapping_add(number), 150).await;
        history(SOTW, seed.wrapping_add(number), 150).await;
    }
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
