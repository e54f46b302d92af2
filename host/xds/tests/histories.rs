//! Random histories of changes and faults between the server and a real Envoy.
//!
//! They print their seed; `CHITON_SEED` has them run with another one.
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
use chiton_xds::{Change, Options};
use proxy::{DELTA, Manner, SOTW, cluster, endpoints};
use remote::{Remote, host, hosts_and_clusters};
use std::time::Duration;
use world::{GROUP, gone};

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
    let world = Remote::start(manner, options, hosts_and_clusters()).await;
    for step in 0..steps {
        match random.below(10) {
            0 => world.way.cut(),
            1 => world.way.hold(),
            2 => world.way.slow(Duration::from_millis(random.below(30))),
            3 | 4 => world.way.mend(),
            5 if random.below(2) == 0 => {
                world.way.mend();
                world.settle().await;
            }
            5 => {}
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
        1 => {
            let port = u16::try_from(1 + random.below(1000)).expect("small");
            let timeout = i64::try_from(1 + random.below(3)).expect("small");
            vec![cluster(&name, timeout), endpoints(&name, port)]
        }
        2 => vec![gone(Cluster, &name), gone(Endpoints, &name)],
        _ => vec![host(number, &step.to_string())],
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
async fn so_it_does_in_the_state_of_the_world() {
    history(SOTW, seed(), 60).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "soak"]
async fn random_histories_of_faults_end_in_what_is_published() {
    let seed = seed();
    for number in 0..20 {
        let manner = if number % 2 == 0 { DELTA } else { SOTW };
        history(manner, seed.wrapping_add(number), 150).await;
    }
}
