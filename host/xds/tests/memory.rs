//! What many clients at once cost the server; they are in another process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/program.rs"]
mod program;
#[path = "support/proxy.rs"]
mod proxy;
mod support;

use chiton_xds::ResourceType::{RouteConfiguration, VirtualHost};
use chiton_xds::{Options, Programmed, ResourceName};
use program::Program;
use proxy::{answers, listener, route_config};
use support::{PATIENCE, Running, until};

const STREAMS: u64 = 200;
const HOSTS: usize = 1_000;
/// Far above what a stream takes, far below what copies of the resources would.
const MOST_PER_STREAM: u64 = 1 << 20;

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4096
}

/// Waits until all clients have acknowledged all that is published.
async fn until_acked(server: &chiton_xds::Server) {
    until(server, |server| {
        server.metrics().streams() == STREAMS && server.is_settled("g")
    })
    .await;
    let names: Vec<ResourceName> = server.resources("g").into_iter().map(|r| r.name).collect();
    assert_eq!(server.programmed("g", &names), Programmed::Acked);
}

/// Runs many clients that speak delta or the state of the world; prints memory per stream.
async fn share(mode: &str) {
    // On a machine that has much to do nobody is to be taken for dead.
    let server = Running::start(Options {
        keepalive_timeout: PATIENCE,
        ..Options::default()
    })
    .await;
    let mut all = vec![listener("l", 1, "r"), route_config("r")];
    all.extend((0..HOSTS).map(|number| answers("r", &format!("h{number}.example"), "1")));
    server.publish("g", all);
    server.set_all_ready();
    let before = resident();
    let address = server.address().to_string();
    let count = STREAMS.to_string();
    let clients = [
        "-server", &address, "-group", "g", "-mode", mode, "-streams", &count,
    ];
    let clients = Program::start("rawads", &clients, &[]);
    until_acked(&server).await;
    assert_eq!(server.metrics().streams(), STREAMS);
    let per_stream = resident().saturating_sub(before) / STREAMS;
    println!(
        "{mode}: {} KiB a stream, with {HOSTS} resources each",
        per_stream >> 10
    );
    assert!(per_stream < MOST_PER_STREAM, "{per_stream} bytes a stream");

    let sent = |kind| server.metrics().resources_sent(kind);
    let before = [VirtualHost, RouteConfiguration].map(sent);
    server.publish("g", vec![answers("r", "h0.example", "2")]);
    until_acked(&server).await;
    let after = [VirtualHost, RouteConfiguration].map(sent);
    // One change is one resource on each.
    let sent: u64 = std::iter::zip(before, after).map(|(a, b)| b - a).sum();
    assert_eq!(sent, STREAMS);
    drop(clients);
    until(&server, |server| server.metrics().streams() == 0).await;
    assert!(server.ledger().proxies().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_streams_share_what_they_are_sent() {
    share("delta").await;
    share("sotw").await;
}
