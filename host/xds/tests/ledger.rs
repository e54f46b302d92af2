//! What the ledger says, and how a group is restored.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chiton_xds::ResourceType::{Listener as Lds, RouteConfiguration, Secret, VirtualHost};
use chiton_xds::{
    Change, Expected, Options, Programmed, ProxySummary, Resource, ResourceName, ResourceType,
};
use support::{Raw, Running, State, names, until};

fn put(kind: ResourceType, name: &str, body: &str) -> Change {
    Change::Put(Resource::new(kind, name, body.to_owned()))
}

#[tokio::test]
async fn the_ledger_says_when_a_resource_is_programmed_and_what_was_rejected() {
    let server = Running::start(Options::default()).await;
    let name = ResourceName::new(Lds, "a");
    let one = [name.clone()];
    server.publish("g", vec![put(Lds, "a", "1")]);
    server.set_all_ready();
    assert_eq!(server.programmed("g", &one), Programmed::NoProxy);

    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    let first = client.next().await;
    assert_eq!(server.programmed("g", &one), Programmed::Pending);
    client.ack(&first).await;
    until(&server, |server| {
        server.programmed("g", &one) == Programmed::Acked
    })
    .await;
    let unpublished = [name.clone(), ResourceName::new(Lds, "b")];
    assert_eq!(server.programmed("g", &unpublished), Programmed::Pending);

    server.publish("g", vec![put(Lds, "a", "2")]);
    assert_eq!(server.programmed("g", &one), Programmed::Pending);
    let second = client.next().await;
    client.nack(&second, "a is bad").await;
    let nacked = Programmed::Nacked {
        name: name.clone(),
        text: "a is bad".to_owned(),
    };
    until(&server, |server| server.programmed("g", &one) == nacked).await;
    assert_eq!(server.metrics().nacks(Lds), 1);
    let old = Expected {
        name,
        version: first.resources[0].version.clone(),
    };
    assert_eq!(server.ledger().programmed("g", &[old]), Programmed::Pending);

    let proxy = &server.ledger().proxies()[0];
    assert_eq!((proxy.node.as_str(), proxy.group.as_str()), ("node", "g"));
    assert!(proxy.synced && proxy.since > 0 && proxy.address.starts_with("127.0.0.1:"));
    assert_eq!(proxy.types[&Lds].nacked, 1);
    assert_eq!(proxy.nacks[0].text, "a is bad");
    assert_eq!(
        proxy.nacks[0].accepted_version.as_ref(),
        Some(&first.resources[0].version)
    );
    drop(client);
    until(&server, |server| {
        server.programmed("g", &one) == Programmed::NoProxy
    })
    .await;
    assert_eq!(server.metrics().streams(), 0);
    assert_eq!(server.metrics().streams_opened(), 1);
}

#[tokio::test]
async fn all_synced_proxies_must_have_acknowledged() {
    let server = Running::start(Options::default()).await;
    let one = [ResourceName::new(Lds, "a")];
    server.publish("g", vec![put(Lds, "a", "1")]);
    server.set_all_ready();
    let mut first = Raw::connect(&server.tcp(), "first", "g").await;
    first.subscribe(Lds, &[]).await;
    first.ack_next().await;
    until(&server, |server| {
        server.programmed("g", &one) == Programmed::Acked
    })
    .await;

    // One that has not been in sync yet does not count; from then on it does.
    let mut second = Raw::connect(&server.tcp(), "second", "g").await;
    second.subscribe(Lds, &[]).await;
    let response = second.next().await;
    assert_eq!(server.programmed("g", &one), Programmed::Acked);
    second.ack(&response).await;
    until(&server, |server| {
        server.ledger().proxies().iter().all(|p| p.synced)
    })
    .await;
    server.publish("g", vec![put(Lds, "a", "2")]);
    first.ack_next().await;
    let response = second.next().await;
    until(&server, |server| {
        server.ledger().proxies()[0].types[&Lds].acked == 1
    })
    .await;
    assert_eq!(server.programmed("g", &one), Programmed::Pending);
    second.ack(&response).await;
    until(&server, |server| {
        server.programmed("g", &one) == Programmed::Acked
    })
    .await;
}

#[tokio::test]
async fn a_rejection_is_told_once_for_all_proxies_and_stands_until_it_is_published_anew() {
    let server = Running::start(Options::default()).await;
    let name = ResourceName::new(Lds, "bad");
    server.publish("g", vec![put(Lds, "bad", "1"), put(Lds, "good", "1")]);
    server.set_all_ready();
    let mut clients = Vec::new();
    for node in ["first", "second"] {
        let mut client = Raw::connect(&server.tcp(), node, "g").await;
        client.subscribe(Lds, &[]).await;
        let response = client.next().await;
        client.nack(&response, &format!("{node} refuses bad")).await;
        client.ack_next().await;
        clients.push(client);
        let number = clients.len();
        until(&server, |server| {
            let rejections = server.ledger().rejections("g");
            rejections
                .iter()
                .any(|rejection| rejection.proxies == number)
        })
        .await;
    }
    let rejections = server.ledger().rejections("g");
    assert_eq!(rejections.len(), 1, "{rejections:?}");
    assert_eq!(rejections[0].name, name);
    assert_eq!(rejections[0].version, server.version("g", &name).unwrap());
    assert_eq!(rejections[0].text, "first refuses bad");
    assert!(server.ledger().rejections("other").is_empty());

    clients.pop();
    until(&server, |server| {
        server.ledger().rejections("g")[0].proxies == 1
    })
    .await;
    server.publish("g", vec![put(Lds, "bad", "2")]);
    clients[0].ack_next().await;
    until(&server, |server| server.ledger().rejections("g").is_empty()).await;
}

#[tokio::test]
async fn restored_resources_are_served_until_the_truth_replaces_them() {
    let server = Running::start(Options::default()).await;
    let before = vec![
        Resource::new(Lds, "changes", "old"),
        Resource::new(Lds, "goes", "old"),
        Resource::new(Lds, "stays", "old"),
    ];
    assert!(server.restore("g", before.clone(), &[Secret]));
    assert_eq!(server.resources("g"), before);

    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    assert_eq!(
        names(&client.ack_next().await),
        ["changes", "goes", "stays"]
    );
    let secret = chiton_xds::version_of(b"secret");
    client
        .reconnect(
            Secret,
            &["known", "lost"],
            &[("known", &secret), ("lost", &secret)],
        )
        .await;
    until(&server, |server| {
        let proxy = &server.ledger().proxies()[0];
        proxy.synced && proxy.types.contains_key(&Secret)
    })
    .await;
    assert_eq!(server.metrics().responses_sent(Secret), 0);

    server.replace(
        "g",
        vec![
            Resource::new(Lds, "changes", "new"),
            Resource::new(Lds, "stays", "old"),
            Resource::new(Secret, "known", "secret"),
        ],
    );
    let response = client.ack_next().await;
    assert_eq!(names(&response), ["changes"]);
    assert_eq!(response.removed_resources, ["goes"]);
    let response = client.ack_next().await;
    assert_eq!(response.type_url, Secret.type_url());
    assert!(response.resources.is_empty(), "it has the secret");
    assert_eq!(response.removed_resources, ["lost"]);
}

/// In a cluster several replicas each know some proxies: what one says must be readable by another.
#[tokio::test]
async fn summaries_can_be_sent_to_another_replica() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "bad", "1"), put(Lds, "good", "1")]);
    server.set_all_ready();
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Lds, &[]).await;
    let response = client.next().await;
    client.nack(&response, "bad is bad").await;
    client.ack_next().await;
    until(&server, |server| {
        server.ledger().proxies()[0].types[&Lds].acked == 1
    })
    .await;
    let proxies = server.ledger().proxies();
    assert_eq!(proxies[0].nacks.len(), 1);
    let text = serde_json::to_string(&proxies).unwrap();
    let read: Vec<ProxySummary> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, proxies);
    let rejections = server.ledger().rejections("g");
    let text = serde_json::to_string(&rejections).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<chiton_xds::Rejection>>(&text).unwrap(),
        rejections
    );
}

/// Proxies with and without VHDS are asked the same question.
#[tokio::test]
async fn a_virtual_host_is_programmed_when_all_have_it_each_in_its_way() {
    let server = Running::start(Options::default()).await;
    server.publish(
        "g",
        vec![
            put(RouteConfiguration, "r", ""),
            put(VirtualHost, "r/v", ""),
        ],
    );
    server.set_all_ready();
    let name = [ResourceName::new(VirtualHost, "r/v")];

    let mut envoy = Raw::connect_envoy(&server.tcp(), "envoy", "g").await;
    envoy.subscribe(Lds, &[]).await;
    envoy.ack_next().await;
    envoy.subscribe(RouteConfiguration, &["r"]).await;
    envoy.ack_next().await;
    envoy.subscribe(VirtualHost, &[]).await;
    assert_eq!(names(&envoy.ack_next().await), ["r/v"]);
    until(&server, |server| {
        server.programmed("g", &name) == Programmed::Acked
    })
    .await;

    let mut other = State::connect(&server.tcp(), "other", "g").await;
    other.request(Lds, &[]).await;
    other.ack_next(&[]).await;
    other.request(RouteConfiguration, &["r"]).await;
    let first = other.next().await;
    other.ack(&first, &["r"]).await;
    until(&server, |server| {
        server.ledger().proxies().iter().all(|proxy| proxy.synced)
    })
    .await;
    assert_eq!(server.programmed("g", &name), Programmed::Acked);

    server.publish("g", vec![put(VirtualHost, "r/v", "\n\u{3}new")]);
    envoy.ack_next().await;
    let second = other.next().await;
    assert_ne!(first.version_info, second.version_info);
    until(&server, |server| {
        let proxies = server.ledger().proxies();
        proxies[0].types[&VirtualHost].acked == 1
    })
    .await;
    assert_eq!(server.programmed("g", &name), Programmed::Pending);
    other.ack(&second, &["r"]).await;
    until(&server, |server| {
        server.programmed("g", &name) == Programmed::Acked
    })
    .await;
}

/// gRPC clients beside proxies: each counts for what it wants.
#[tokio::test]
async fn a_client_that_names_its_listeners_holds_back_no_other() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "mine", "1"), put(Lds, "other", "1")]);
    server.set_all_ready();
    let (mine, other) = (
        [ResourceName::new(Lds, "mine")],
        [ResourceName::new(Lds, "other")],
    );
    let mut client = State::connect(&server.tcp(), "grpc", "g").await;
    client.request(Lds, &["mine"]).await;
    client.ack_next(&["mine"]).await;
    until(&server, |server| {
        server.programmed("g", &mine) == Programmed::Acked
    })
    .await;
    assert_eq!(
        server.programmed("g", &other),
        Programmed::Pending,
        "nobody has it"
    );

    let mut proxy = State::connect(&server.tcp(), "proxy", "g").await;
    proxy.request(Lds, &[]).await;
    proxy.ack_next(&[]).await;
    until(&server, |server| {
        server.programmed("g", &other) == Programmed::Acked
    })
    .await;
}

/// Whoever waits for the ledger's changes is told, though the client hears and says nothing.
#[tokio::test]
async fn a_publish_that_is_of_no_concern_to_a_client_is_settled_too() {
    let server = Running::start(Options::default()).await;
    server.publish("g", vec![put(Lds, "a", "1")]);
    server.set_all_ready();
    let mut client = Raw::connect(&server.tcp(), "node", "g").await;
    client.subscribe(Lds, &["a"]).await;
    client.ack_next().await;
    until(&server, |server| server.is_settled("g")).await;
    server.publish("g", vec![put(RouteConfiguration, "r", "1")]);
    until(&server, |server| server.is_settled("g")).await;
    assert_eq!(server.metrics().responses_sent(RouteConfiguration), 0);
}
