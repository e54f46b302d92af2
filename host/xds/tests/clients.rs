//! The server with clients that others wrote: a raw ADS client in Go, and gRPC's own xDS client.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/faulty.rs"]
mod faulty;
#[path = "support/program.rs"]
mod program;
#[path = "support/proxy.rs"]
mod proxy;
mod support;

use chiton_xds::ResourceType::{
    self, Cluster, Endpoints, Listener, RouteConfiguration, VirtualHost,
};
use chiton_xds::{Change, Options, Programmed, ResourceName};
use faulty::Way;
use program::Program;
use proxy::{
    answers, api_listener, cluster, endpoints, leads_to, listener, misfit_cluster, route_config,
};
use support::{Running, until};
use tempfile::TempDir;

fn gone(kind: ResourceType, name: &str) -> Change {
    Change::Remove(ResourceName::new(kind, name))
}

fn raw(server: &Running, mode: &str) -> Program {
    let address = server.tcp().replace("http://", "");
    let arguments = ["-server", &address, "-group", "g", "-mode", mode];
    Program::start("rawads", &arguments, &[])
}

/// `name@version` of published resources, as the delta client prints them.
fn versioned(server: &Running, kind: ResourceType, names: &[&str]) -> String {
    let word = |name: &&str| {
        let version = server.version("g", &ResourceName::new(kind, *name));
        format!(" {name}@{}", version.expect("it is published"))
    };
    format!("{kind}{}", names.iter().map(word).collect::<String>())
}

/// Two clusters, a listener with two route configurations' worth of virtual hosts.
fn world() -> Vec<Change> {
    vec![
        cluster("c0", 1),
        cluster("c1", 1),
        endpoints("c0", 1),
        endpoints("c1", 1),
        listener("l", 1, "r"),
        route_config("r"),
        answers("r", "a.example", "1"),
        leads_to("r", "b.example", "c0"),
    ]
}

#[tokio::test]
async fn a_raw_delta_client_is_told_names_and_versions_in_order() {
    let server = Running::start(Options::default()).await;
    server.publish("g", world());
    server.set_all_ready();
    let mut client = raw(&server, "delta");

    let hosts = versioned(&server, VirtualHost, &["r/a.example", "r/b.example"]);
    let lines = client.lines_until(&hosts).await;
    let order = [
        versioned(&server, Cluster, &["c0", "c1"]),
        versioned(&server, Endpoints, &["c0", "c1"]),
        versioned(&server, Listener, &["l"]),
        versioned(&server, RouteConfiguration, &["r"]),
        hosts,
    ];
    assert_eq!(lines, order);

    server.publish("g", vec![answers("r", "a.example", "2")]);
    let changed = versioned(&server, VirtualHost, &["r/a.example"]);
    assert_eq!(client.line().await, changed, "nothing else");

    // A new cluster is there before what leads to it, with its endpoints; the old one goes last.
    server.publish(
        "g",
        vec![
            cluster("c2", 1),
            endpoints("c2", 1),
            leads_to("r", "b.example", "c2"),
            gone(Cluster, "c0"),
            gone(Endpoints, "c0"),
        ],
    );
    let last = format!("{Cluster} -c0");
    let expected = [
        versioned(&server, Cluster, &["c2"]),
        versioned(&server, Endpoints, &["c2"]),
        versioned(&server, VirtualHost, &["r/b.example"]),
        last.clone(),
    ];
    let mut lines = client.lines_until(&last).await;
    // It unsubscribes from the endpoints only after their cluster is gone.
    lines.retain(|line| *line != format!("{Endpoints} -c0"));
    assert_eq!(lines, expected);
}

/// The words after the type and the version.
fn contents(line: &str) -> (&str, Vec<&str>) {
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_default();
    let version = words.next().unwrap_or_default();
    assert!(version.starts_with("version="), "{line}");
    (kind, words.collect())
}

#[tokio::test]
async fn a_raw_state_of_the_world_client_is_told_names_in_order() {
    let server = Running::start(Options::default()).await;
    server.publish("g", world());
    server.set_all_ready();
    let mut client = raw(&server, "sotw");
    let mut next = async || {
        let line = client.line().await;
        let (kind, names) = contents(&line);
        format!("{kind}: {}", names.join(" "))
    };
    let order = [
        "Cluster: c0 c1",
        "ClusterLoadAssignment: c0 c1",
        "Listener: l",
        "RouteConfiguration: r[r/a.example,r/b.example]",
    ];
    for expected in order {
        assert_eq!(next().await, expected);
    }

    server.publish("g", vec![answers("r", "a.example", "2")]);
    assert_eq!(next().await, order[3], "nothing else");

    server.publish(
        "g",
        vec![
            cluster("c2", 1),
            endpoints("c2", 1),
            leads_to("r", "b.example", "c2"),
            gone(Cluster, "c0"),
            gone(Endpoints, "c0"),
        ],
    );
    let order = [
        // What goes is there until nothing leads to it any more.
        "Cluster: c0 c1 c2",
        "ClusterLoadAssignment: c2",
        "RouteConfiguration: r[r/a.example,r/b.example]",
        "Cluster: c1 c2",
    ];
    for expected in order {
        assert_eq!(next().await, expected);
    }
}

#[tokio::test]
async fn state_of_the_world_versions_are_those_of_the_content() {
    let mut lines = Vec::new();
    for _ in 0..2 {
        let server = Running::start(Options::default()).await;
        server.publish("g", world());
        server.set_all_ready();
        let mut client = raw(&server, "sotw");
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(client.line().await);
        }
        lines.push(all);
    }
    assert_eq!(lines[0], lines[1], "two servers agree");
}

#[tokio::test]
async fn a_raw_delta_client_that_is_killed_is_forgotten() {
    let server = Running::start(Options::default()).await;
    server.publish("g", world());
    server.set_all_ready();
    let mut client = raw(&server, "delta");
    let hosts = versioned(&server, VirtualHost, &["r/a.example", "r/b.example"]);
    client.lines_until(&hosts).await;
    assert_eq!(server.metrics().streams(), 1);
    drop(client);
    until(&server, |server| server.metrics().streams() == 0).await;
}

/// gRPC's client of `svc.example`, one call a line. Its xDS server is a gRPC target.
fn grpc(server: &str) -> Program {
    let bootstrap = serde_json::json!({
        "xds_servers": [{
            "server_uri": server,
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": "grpc", "cluster": "g"},
    });
    let environment = [("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string())];
    Program::start("grpcxds", &["call", "xds:///svc.example"], &environment)
}

/// A gRPC backend and its port.
async fn grpc_backend(name: &str) -> (Program, u16) {
    let mut backend = Program::start("grpcxds", &["serve", name], &[]);
    let address = backend.line().await;
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    (backend, port.expect("a port"))
}

/// `svc.example` leads to cluster `c` with an endpoint.
fn service(port: u16) -> Vec<Change> {
    vec![
        api_listener("svc.example", "r"),
        route_config("r"),
        leads_to("r", "svc.example", "c"),
        cluster("c", 1),
        endpoints("c", port),
    ]
}

/// Calls until the answer is as expected.
async fn until_call(client: &mut Program, expected: impl Fn(&str) -> bool) -> String {
    let mut seen = Vec::new();
    let calls = async {
        loop {
            client.say("call").await;
            let answer = client.line().await;
            if expected(&answer) {
                break answer;
            }
            if seen.last() != Some(&answer) {
                seen.push(answer);
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let result = tokio::time::timeout(support::PATIENCE, calls).await;
    result.unwrap_or_else(|_| panic!("calls were answered {seen:#?}"))
}

#[tokio::test]
async fn grpc_resolves_a_name_through_the_server_and_follows_changes() {
    let server = Running::start(Options::default()).await;
    let (_first, first) = grpc_backend("first").await;
    let (_second, second) = grpc_backend("second").await;
    server.publish("g", service(first));
    server.set_all_ready();
    let mut client = grpc(&server.address().to_string());
    until_call(&mut client, |answer| answer == "backend=first").await;

    // Endpoints move.
    server.publish("g", vec![endpoints("c", second)]);
    until_call(&mut client, |answer| answer == "backend=second").await;

    // The route leads to another cluster, and the old one goes.
    server.publish(
        "g",
        vec![
            cluster("d", 1),
            endpoints("d", first),
            leads_to("r", "svc.example", "d"),
            gone(Cluster, "c"),
            gone(Endpoints, "c"),
        ],
    );
    let answer = until_call(&mut client, |answer| answer != "backend=second").await;
    assert_eq!(answer, "backend=first", "no call may fail in between");

    // The listener goes: the name does not exist any more.
    server.publish("g", vec![gone(Listener, "svc.example")]);
    let answer = until_call(&mut client, |answer| answer.starts_with("error=")).await;
    assert!(answer.starts_with("error=Unavailable"), "{answer}");

    // It comes back.
    server.publish("g", vec![api_listener("svc.example", "r")]);
    until_call(&mut client, |answer| answer == "backend=first").await;
}

#[tokio::test]
async fn grpc_goes_on_while_the_server_is_away_and_then_follows() {
    let folder = TempDir::new().unwrap();
    let server = Running::start(Options::default()).await;
    let way = Way::open(&folder.path().join("way.sock"), server.address());
    let (_first, first) = grpc_backend("first").await;
    let (_second, second) = grpc_backend("second").await;
    server.publish("g", service(first));
    server.set_all_ready();
    let mut client = grpc(&way.address().replace("unix://", "unix:"));
    until_call(&mut client, |answer| answer == "backend=first").await;

    way.cut();
    until(&server, |server| server.metrics().streams() == 0).await;
    server.publish("g", vec![endpoints("c", second)]);
    client.say("call").await;
    assert_eq!(client.line().await, "backend=first");
    way.mend();
    let answer = until_call(&mut client, |answer| answer != "backend=first").await;
    assert_eq!(answer, "backend=second");
}

#[tokio::test]
async fn what_grpc_refuses_is_told_and_it_keeps_what_it_had() {
    let server = Running::start(Options::default()).await;
    let (_backend, port) = grpc_backend("first").await;
    server.publish("g", service(port));
    server.set_all_ready();
    let mut client = grpc(&server.address().to_string());
    until_call(&mut client, |answer| answer == "backend=first").await;

    let name = [ResourceName::new(Cluster, "c")];
    server.publish("g", vec![misfit_cluster("c")]);
    until(&server, |server| match server.programmed("g", &name) {
        Programmed::Nacked { text, .. } => text.contains("lbPolicy"),
        _ => false,
    })
    .await;
    client.say("call").await;
    assert_eq!(client.line().await, "backend=first");

    server.publish("g", vec![cluster("c", 2)]);
    until(&server, |server| {
        server.programmed("g", &name) == Programmed::Acked
    })
    .await;
    client.say("call").await;
    assert_eq!(client.line().await, "backend=first");
    let nacks = &server.ledger().proxies()[0].nacks;
    assert!(nacks.is_empty(), "{nacks:?}");
}
