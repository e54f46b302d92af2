//! The server with a raw client in the state of the world.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chiton_xds::ResourceType::{
    Cluster, Endpoints, Listener as Lds, RouteConfiguration, VirtualHost,
};
use chiton_xds::{Change, Options, Resource, ResourceName, ResourceType};
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
use prost::Message as _;
use support::{Raw, Running, State, names, until};
use tonic::Code;

fn put(kind: ResourceType, name: &str, body: &str) -> Change {
    Change::Put(Resource::new(kind, name, body.to_owned()))
}

fn bodies(response: &DiscoveryResponse) -> Vec<&str> {
    let bodies = response.resources.iter();
    bodies
        .map(|any| std::str::from_utf8(&any.value).unwrap())
        .collect()
}

#[tokio::test]
async fn serves_the_same_snapshots_as_delta() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Cluster, "a", "a1"), put(Cluster, "b", "b1")]);
    server.publish("other", vec![put(Cluster, "x", "x1")]);
    server.set_all_ready();
    let mut delta = Raw::connect(&server.tcp(), "delta", "g").await;
    delta.subscribe(Cluster, &[]).await;
    assert_eq!(names(&delta.ack_next().await), ["a", "b"]);

    let mut client = State::connect(&server.unix(), "node", "g").await;
    client.request(Cluster, &[]).await;
    let first = client.ack_next(&[]).await;
    assert_eq!(first.type_url, Cluster.type_url());
    assert_eq!(first.resources[0].type_url, Cluster.type_url());
    assert_eq!(bodies(&first), ["a1", "b1"]);
    let all = ["a", "b"].map(|name| ResourceName::new(Cluster, name));
    until(&server, |server| {
        let proxies = server.ledger().proxies();
        proxies.iter().all(|proxy| proxy.types[&Cluster].acked == 2)
    })
    .await;

    server.publish("g", vec![put(Cluster, "a", "a2")]);
    let second = client.next().await;
    assert_eq!(bodies(&second), ["a2", "b1"]);
    assert_ne!(first.version_info, second.version_info);
    client
        .nack(&second, &first.version_info, &[], "a is bad")
        .await;
    until(&server, |server| {
        let rejections = server.ledger().rejections("g");
        rejections
            .first()
            .is_some_and(|rejection| rejection.name == all[0])
    })
    .await;
    server.publish("g", vec![put(Cluster, "b", "b2")]);
    assert_eq!(
        bodies(&client.ack_next(&[]).await),
        ["a1", "b2"],
        "the accepted form stays"
    );
    assert_eq!(server.metrics().nacks(Cluster), 1);
}

/// "ACK/NACK and resource type instance version": the version is a property of the resources, not of
/// a stream or a server.
#[tokio::test]
async fn the_version_is_that_of_the_resources() {
    let mut versions = Vec::new();
    for _ in 0..2 {
        let server = Running::start(Options::default()).await;
        server.publish("g", vec![put(Lds, "old", "1")]);
        server.publish(
            "g",
            vec![
                put(Lds, "a", "1"),
                Change::Remove(ResourceName::new(Lds, "old")),
            ],
        );
        server.set_all_ready();
        for _ in 0..2 {
            let mut client = State::connect(&server.tcp(), "node", "g").await;
            client.request(Lds, &[]).await;
            versions.push(client.next().await.version_info);
        }
    }
    assert!(
        versions.iter().all(|version| *version == versions[0]),
        "{versions:?}"
    );
}

/// "Basic Protocol Overview": only the first request of a stream carries the node.
#[tokio::test]
async fn a_client_must_say_who_it_is_once() {
    let server = Running::start(Options::default()).await;
    let mut client = State::connect(&server.tcp(), "node", "").await;
    client.request(Cluster, &[]).await;
    assert_eq!(client.end().await.code(), Code::InvalidArgument);

    server.publish("g", vec![put(Cluster, "a", "a1"), put(Lds, "l", "l1")]);
    server.set_all_ready();
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    client.request(Cluster, &[]).await;
    assert_eq!(bodies(&client.ack_next(&[]).await), ["a1"]);
    client.request(Lds, &[]).await;
    assert_eq!(bodies(&client.ack_next(&[]).await), ["l1"]);
}

/// Nothing is said of types that are not served; VHDS is delta only. Others go on.
#[tokio::test]
async fn a_type_that_is_not_served_is_not_answered() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "l", "l1")]);
    server.set_all_ready();
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    client
        .request_url(
            "type.googleapis.com/envoy.service.runtime.v3.Runtime",
            &["r"],
        )
        .await;
    client.request(VirtualHost, &["r/v"]).await;
    client.request(Lds, &[]).await;
    assert_eq!(bodies(&client.ack_next(&[]).await), ["l1"]);
}

fn host(name: &str, domain: &str) -> Change {
    let message = route::VirtualHost {
        name: name.to_owned(),
        domains: vec![domain.to_owned()],
        ..route::VirtualHost::default()
    };
    Change::Put(Resource::encode(VirtualHost, name, &message))
}

/// Answers as a client that refuses a route configuration with a bad virtual host as a whole, until
/// it has these domains and so many rejections stand.
async fn settle(client: &mut State, server: &Running, domains: &[String], rejections: usize) {
    let mut has = Vec::new();
    let mut changes = server.ledger().changes();
    while has != domains || server.ledger().rejections("g").len() != rejections {
        let response = tokio::select! {
            response = client.next() => response,
            _ = changes.changed() => continue,
        };
        let message = route::RouteConfiguration::decode(&*response.resources[0].value).unwrap();
        let hosts = message.virtual_hosts.into_iter();
        let received: Vec<String> = hosts.flat_map(|host| host.domains).collect();
        if received.iter().any(|domain| domain == "bad") {
            client.nack(&response, "", &["r"], "refused").await;
        } else {
            client.ack(&response, &["r"]).await;
            has = received;
        }
    }
}

#[tokio::test]
async fn bad_virtual_hosts_are_found_in_their_route_configuration() {
    let server = Running::start(Options::default()).await;
    let base = route::RouteConfiguration {
        name: "r".to_owned(),
        ..route::RouteConfiguration::default()
    };
    let domains: Vec<_> = (0..16).map(|number| format!("d{number}")).collect();
    let name = |number: usize| format!("r/{number:02}");
    let hosts = domains.iter().enumerate();
    let mut changes: Vec<_> = hosts.map(|(n, domain)| host(&name(n), domain)).collect();
    changes.push(Change::Put(Resource::encode(
        RouteConfiguration,
        "r",
        &base,
    )));
    changes.push(host("r/new", "bad"));
    server.publish("g", changes);
    server.set_all_ready();
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    client.request(RouteConfiguration, &["r"]).await;
    settle(&mut client, &server, &domains, 1).await;

    let mut expected = domains.clone();
    expected[3] = "changed".to_owned();
    server.publish("g", vec![host(&name(3), "changed"), host(&name(6), "bad")]);
    settle(&mut client, &server, &expected, 2).await;
    let rejections = server.ledger().rejections("g");
    let rejected: Vec<_> = rejections
        .iter()
        .map(|rejection| &*rejection.name.name)
        .collect();
    assert_eq!(rejected, [name(6).as_str(), "r/new"]);

    // One that connects while the rejections stand, or again, has no less than the others.
    drop(client);
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    client.request(RouteConfiguration, &["r"]).await;
    settle(&mut client, &server, &expected, 2).await;
}

#[tokio::test]
async fn a_client_that_names_100_000_resources_gets_them_in_messages_that_grpc_takes() {
    let server = Running::start(Options::default()).await;
    let all: Vec<String> = (0..100_000)
        .map(|number| format!("service_some-namespace_some-service-{number}_8080"))
        .collect();
    server.publish(
        "g",
        all.iter().map(|name| put(Endpoints, name, name)).collect(),
    );
    server.set_all_ready();
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    let subscribe: Vec<&str> = all.iter().map(String::as_str).collect();
    client.request(Endpoints, &subscribe).await;
    let mut received = 0;
    while received < all.len() {
        let response = client.ack_next(&subscribe).await;
        assert!(response.encoded_len() < 4 << 20);
        received += response.resources.len();
    }
    assert_eq!(received, all.len());
    server.publish("g", vec![put(Endpoints, &all[77_777], "changed")]);
    assert_eq!(bodies(&client.next().await), ["changed"]);
}
