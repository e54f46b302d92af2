//! What many clients at once cost the server; they are in another process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/program.rs"]
mod program;
#[path = "support/proxy.rs"]
mod proxy;
mod support;

use chiton_xds::ResourceType::VirtualHost;
use chiton_xds::{Options, Programmed, ResourceName};
use program::Program;
use proxy::{answers, listener, route_config};
use std::time::Duration;
use support::{Running, soon, until};

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
    let names: Vec<ResourceName> = server.resources("g").into_iter().map(|r| r.name).collect();
    let wait = async {
        loop {
            let proxies = server.ledger().proxies();
            let synced = proxies.iter().filter(|proxy| proxy.synced).count();
            if synced as u64 == STREAMS && server.programmed("g", &names) == Programmed::Acked {
                break;
            }
            // Each answer of a client is a change, and to look is not cheap.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon("all acknowledge", wait).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_streams_share_what_they_are_sent() {
    let server = Running::start(Options::default()).await;
    let mut all = vec![listener("l", 1, "r"), route_config("r")];
    all.extend((0..HOSTS).map(|number| answers("r", &format!("h{number}.example"), "1")));
    server.publish("g", all);
    server.set_all_ready();
    let before = resident();
    let address = server.tcp().replace("http://", "");
    let count = STREAMS.to_string();
    let arguments = ["-server", &address, "-group", "g", "-streams", &count];
    let clients = Program::start("rawads", &arguments, &[]);
    until_acked(&server).await;
    assert_eq!(server.metrics().streams(), STREAMS);
    assert_eq!(
        server.metrics().resources_sent(VirtualHost),
        STREAMS * HOSTS as u64
    );
    let per_stream = resident().saturating_sub(before) / STREAMS;
    println!(
        "{} KiB a stream, with {HOSTS} resources each",
        per_stream >> 10
    );
    assert!(per_stream < MOST_PER_STREAM, "{per_stream} bytes a stream");

    // One change is one resource on each.
    server.publish("g", vec![answers("r", "h0.example", "2")]);
    until_acked(&server).await;
    assert_eq!(
        server.metrics().resources_sent(VirtualHost),
        STREAMS * (HOSTS as u64 + 1)
    );
    drop(clients);
    until(&server, |server| server.metrics().streams() == 0).await;
    assert!(server.ledger().proxies().is_empty());
}
