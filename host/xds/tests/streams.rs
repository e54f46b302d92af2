//! Many streams, slow and broken clients.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chiton_xds::ResourceType::{Cluster, Endpoints};
use chiton_xds::{Change, Options, Resource, ResourceType};
use std::time::Duration;
use support::{Raw, Running, State, until};
use tonic::Code;

fn put(kind: ResourceType, name: &str, body: &str) -> Change {
    Change::Put(Resource::new(kind, name, body.to_owned()))
}

/// Resident memory of this process.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

enum Client {
    Delta(Raw),
    State(State),
}

impl Client {
    async fn connect(server: &Running, number: usize) -> Self {
        let node = format!("node-{number}");
        if number.is_multiple_of(2) {
            let mut client = Raw::connect(&server.tcp(), &node, "g").await;
            client.subscribe(Cluster, &[]).await;
            Self::Delta(client)
        } else {
            let mut client = State::connect(&server.tcp(), &node, "g").await;
            client.request(Cluster, &[]).await;
            Self::State(client)
        }
    }

    /// Acknowledges the next response; its number of resources.
    async fn ack_next(&mut self) -> usize {
        match self {
            Self::Delta(client) => client.ack_next().await.resources.len(),
            Self::State(client) => client.ack_next(&[]).await.resources.len(),
        }
    }
}

/// Half of them speak delta, half the state of the world; one in ten never answers, nor reads more
/// than the first response.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_streams_of_which_some_are_stuck() {
    const STREAMS: usize = 200;
    const CLUSTERS: usize = 200;
    const ROUNDS: usize = 5;
    let server = Running::start(Options::default()).await;
    let body = "x".repeat(1_000);
    let all = |round: usize| {
        (0..CLUSTERS)
            .map(|number| put(Cluster, &format!("c{number}"), &format!("{body}{round}")))
            .collect()
    };
    server.publish("g", all(0));
    server.set_all_ready();
    let before = resident_bytes();
    let mut clients = Vec::new();
    let mut stuck = Vec::new();
    for number in 0..STREAMS {
        let client = Client::connect(&server, number).await;
        if number % 20 < 2 {
            stuck.push(client);
        } else {
            clients.push(client);
        }
    }
    assert_eq!(stuck.len(), STREAMS / 10);
    for client in &mut clients {
        assert_eq!(client.ack_next().await, CLUSTERS);
    }
    until(&server, |server| {
        let proxies = server.ledger().proxies();
        let acked = proxies
            .iter()
            .filter(|proxy| proxy.types[&Cluster].acked == CLUSTERS);
        acked.count() == STREAMS - STREAMS / 10
    })
    .await;
    assert_eq!(server.metrics().streams(), STREAMS as u64);
    assert_eq!(server.metrics().responses_sent(Cluster), STREAMS as u64);
    let idle = resident_bytes();

    // Each change reaches every client that answers, and is sent to none that does not.
    let sent = server.metrics().responses_sent(Cluster);
    for round in 1..=ROUNDS {
        server.publish("g", all(round));
        for client in &mut clients {
            assert_eq!(client.ack_next().await, CLUSTERS);
        }
    }
    let sent = server.metrics().responses_sent(Cluster) - sent;
    // A stuck one is sent the newest three times more, if the rounds take that long.
    let bound = ROUNDS * clients.len()..=ROUNDS * clients.len() + 3 * stuck.len();
    assert!(
        bound.contains(&usize::try_from(sent).unwrap()),
        "{sent} responses"
    );
    let busy = resident_bytes();
    println!(
        "memory per stream, its client included: {} KiB of {CLUSTERS} clusters of {} KiB, \
         {} KiB after {ROUNDS} rounds",
        (idle.saturating_sub(before)) / 1024 / STREAMS as u64,
        CLUSTERS * body.len() / 1024,
        (busy.saturating_sub(before)) / 1024 / STREAMS as u64,
    );

    // One that wakes up has the newest in two steps.
    let mut woken = stuck.pop().unwrap();
    woken.ack_next().await;
    drop(stuck);
    drop(clients);
    until(&server, |server| server.metrics().streams() == 1).await;
    server.publish("g", all(ROUNDS + 1));
    assert_eq!(woken.ack_next().await, CLUSTERS);
}

#[tokio::test]
async fn too_many_subscriptions_end_the_stream_in_the_state_of_the_world_too() {
    let server = Running::start(Options {
        max_subscriptions: 2,
        ..Options::default()
    })
    .await;
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    client.request(Endpoints, &["a", "b", "c"]).await;
    assert_eq!(client.end().await.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_request_that_is_too_large_ends_its_stream_and_no_other() {
    let server = Running::start(Options {
        max_request_bytes: 1_000,
        ..Options::default()
    })
    .await;
    server.set_all_ready();
    let mut other = State::connect(&server.tcp(), "other", "g").await;
    other.request(Cluster, &[]).await;
    other.ack_next(&[]).await;
    let mut client = State::connect(&server.tcp(), "node", "g").await;
    client.request(Endpoints, &["a"]).await;
    until(&server, |server| server.metrics().streams() == 2).await;
    let long = "x".repeat(2_000);
    client.request(Endpoints, &[&long]).await;
    client.end().await;
    until(&server, |server| server.metrics().streams() == 1).await;
    server.publish("g", vec![put(Cluster, "a", "1")]);
    other.ack_next(&[]).await;
}

/// Half-open TCP: nothing passes, and nobody says so.
#[tokio::test]
async fn a_connection_that_died_without_a_word_is_closed_in_the_state_of_the_world_too() {
    let server = Running::start(Options {
        keepalive_interval: Duration::from_millis(100),
        keepalive_timeout: Duration::from_millis(100),
        ..Options::default()
    })
    .await;
    server.set_all_ready();
    let (address, cut) = support::cuttable(&server.tcp()).await;
    let mut client = State::connect(&address, "node", "g").await;
    client.request(Cluster, &[]).await;
    client.ack_next(&[]).await;
    cut.cut();
    until(&server, |server| server.metrics().streams() == 0).await;
    assert!(server.ledger().proxies().is_empty());
}
