//! The server over TCP and unix sockets, with a raw delta client.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chiton_xds::ResourceType::{Cluster, Endpoints, Listener as Lds};
use chiton_xds::{Change, Options, Resource, ResourceName, ResourceType};
use std::time::Duration;
use support::{Raw, Running, names, until};
use tonic::Code;

fn put(kind: ResourceType, name: &str, body: &str) -> Change {
    Change::Put(Resource::new(kind, name, body.to_owned()))
}

fn gone(kind: ResourceType, name: &str) -> Change {
    Change::Remove(ResourceName::new(kind, name))
}

#[tokio::test]
async fn serves_the_same_over_tcp_and_unix_and_only_its_own_group() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Cluster, "a", "1"), put(Cluster, "b", "1")]);
    server.publish("other", vec![put(Cluster, "x", "1")]);
    server.set_all_ready();
    for address in [server.tcp(), server.unix()] {
        let mut client = Raw::connect(&address, "node", "g").await;
        client.subscribe(Cluster, &[]).await;
        let response = client.next().await;
        assert_eq!(response.type_url, Cluster.type_url());
        assert_eq!(names(&response), ["a", "b"]);
        let body = response.resources[0].resource.as_ref().unwrap();
        assert_eq!(body.type_url, Cluster.type_url());
        assert_eq!(body.value, b"1");
    }
}

#[tokio::test]
async fn nobody_is_told_anything_before_the_group_is_ready() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Cluster, "a", "1")]);
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client
        .reconnect(Cluster, &[], &[("a", "old"), ("b", "old")])
        .await;
    until(&server, |server| {
        let proxies = server.ledger().proxies();
        proxies
            .iter()
            .any(|proxy| proxy.types.contains_key(&Cluster))
    })
    .await;
    assert_eq!(server.metrics().responses_sent(Cluster), 0);
    server.publish("g", vec![put(Cluster, "b", "1")]);
    server.set_ready("g");
    assert_eq!(names(&client.next().await), ["a", "b"]);
}

#[tokio::test]
async fn a_publish_is_seen_whole() {
    let server = Running::start(Options::default()).await;
    server.set_all_ready();
    let mut client = Raw::connect(&server.unix(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    client.ack_next().await;
    for round in 0..50 {
        let body = round.to_string();
        let changes = (0..20).map(|listener| put(Lds, &format!("l{listener}"), &body));
        server.publish("g", changes.collect());
        let response = client.ack_next().await;
        assert_eq!(response.resources.len(), 20, "round {round}");
        let bodies = response
            .resources
            .iter()
            .map(|r| &r.resource.as_ref().unwrap().value);
        assert!(bodies.into_iter().all(|value| *value == body.as_bytes()));
    }
}

#[tokio::test]
async fn a_removed_group_is_taken_from_its_clients() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "a", "1")]);
    server.set_all_ready();
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    client.ack_next().await;
    server.remove_group("g");
    assert_eq!(client.next().await.removed_resources, ["a"]);
}

#[tokio::test]
async fn a_client_that_brings_along_100_000_resources_gets_the_one_that_changed() {
    let server = Running::start(Options::default()).await;
    let all: Vec<String> = (0..100_000)
        .map(|number| format!("service_some-namespace_some-service-{number}_8080"))
        .collect();
    let changes = all.iter().map(|name| put(Endpoints, name, name)).collect();
    server.publish("g", changes);
    server.publish("g", vec![put(Endpoints, &all[77_777], "changed")]);
    server.set_all_ready();
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    let has: Vec<_> = all
        .iter()
        .map(|name| (name.clone(), chiton_xds::version_of(name.as_bytes())))
        .collect();
    let has: Vec<_> = has.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let subscribe: Vec<&str> = all.iter().map(String::as_str).collect();
    client.reconnect(Endpoints, &subscribe, &has).await;
    assert_eq!(names(&client.next().await), [all[77_777].as_str()]);
    assert_eq!(server.metrics().resources_sent(Endpoints), 1);
}

#[tokio::test]
async fn a_client_that_does_not_answer_does_not_delay_another() {
    let server = Running::start(Options::default()).await;
    server.set_all_ready();
    let mut silent = Raw::connect(&server.tcp(), "silent", "g").await;
    silent.subscribe(Lds, &[]).await;
    let mut client = Raw::connect(&server.tcp(), "client", "g").await;
    client.subscribe(Lds, &[]).await;
    client.ack_next().await;
    for round in 0..100 {
        server.publish("g", vec![put(Lds, "a", &"x".repeat(100_000 + round))]);
        client.ack_next().await;
    }
    let first = silent.next().await;
    silent.ack(&first).await;
    let newest = silent.next().await;
    assert_eq!(
        newest.resources[0].resource.as_ref().unwrap().value.len(),
        100_099,
        "what it missed is folded"
    );
}

#[tokio::test]
async fn a_type_that_is_not_served_is_answered() {
    let server = Running::start(Options::default()).await;
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client
        .subscribe_url(
            "type.googleapis.com/envoy.service.runtime.v3.Runtime",
            &["r"],
        )
        .await;
    let response = client.next().await;
    assert_eq!(response.removed_resources, ["r"]);
    client.ack(&response).await;
    client.subscribe_url("", &["s"]).await;
    assert_eq!(client.next().await.removed_resources, ["s"]);
}

#[tokio::test]
async fn a_client_must_say_who_it_is() {
    let server = Running::start(Options::default()).await;
    for (node, group) in [("", "g"), ("node", "")] {
        let mut client = Raw::connect(&server.tcp(), node, group).await;
        client.subscribe(Cluster, &[]).await;
        let status = client.end().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(
            status.message().contains("`cluster`"),
            "{}",
            status.message()
        );
    }
}

#[tokio::test]
async fn too_many_subscriptions_end_the_stream() {
    let server = Running::start(Options {
        max_subscriptions: 2,
        ..Options::default()
    })
    .await;
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Endpoints, &["a", "b", "c"]).await;
    assert_eq!(client.end().await.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_shutdown_ends_streams_at_once() {
    let mut server = Running::start(Options::default()).await;
    server.set_all_ready();
    let mut client = Raw::connect(&server.unix(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    client.ack_next().await;
    server.stop().await;
    assert_eq!(client.end().await.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_connection_that_died_without_a_word_is_closed() {
    let server = Running::start(Options {
        keepalive_interval: Duration::from_millis(100),
        keepalive_timeout: Duration::from_millis(100),
        ..Options::default()
    })
    .await;
    server.set_all_ready();
    let (address, cut) = support::cuttable(&server.tcp()).await;
    let mut client = Raw::connect(&address, "node", "g").await;
    client.subscribe(Lds, &[]).await;
    client.ack_next().await;
    assert_eq!(server.metrics().streams(), 1);
    cut.cut();
    until(&server, |server| server.metrics().streams() == 0).await;
    assert!(server.ledger().proxies().is_empty());
}

#[tokio::test]
async fn a_removed_resource_is_told() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "a", "1"), put(Lds, "b", "1")]);
    server.set_all_ready();
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    client.ack_next().await;
    server.publish("g", vec![gone(Lds, "a")]);
    let response = client.next().await;
    assert_eq!(response.removed_resources, ["a"]);
    assert!(response.resources.is_empty());
}

#[tokio::test]
async fn rejections_are_remembered_and_a_group_that_accepted_all_is_settled() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "l", "1")]);
    server.set_all_ready();
    assert!(!server.is_settled("g"), "nobody is there");
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    for kind in [Cluster, Lds] {
        client.subscribe(kind, &[]).await;
        client.ack_next().await;
    }
    until(&server, |server| server.is_settled("g")).await;

    server.publish("g", vec![put(Lds, "l", "2")]);
    assert!(!server.is_settled("g"));
    let refused = client.next().await;
    client.nack(&refused, "no 2").await;
    server.publish("g", vec![put(Lds, "l", "3")]);
    client.ack_next().await;
    until(&server, |server| server.is_settled("g")).await;

    let rejections = server.ledger().rejections_since(0);
    assert_eq!(rejections.len(), 1, "{rejections:?}");
    let name = ResourceName::new(Lds, "l");
    assert_eq!((&rejections[0].name, &*rejections[0].text), (&name, "no 2"));
    assert_eq!(*rejections[0].version, *refused.resources[0].version);
    assert!(
        server
            .ledger()
            .rejections_since(rejections[0].number)
            .is_empty()
    );
    let has = server.ledger().possessions("g", &name);
    assert_eq!(has.len(), 1);
    assert!(
        has[0].synced && has[0].accepted.as_ref() == Some(&has[0].sent),
        "{has:?}"
    );
    assert!(
        server
            .ledger()
            .possessions("g", &ResourceName::new(Lds, "x"))
            .is_empty()
    );
}
