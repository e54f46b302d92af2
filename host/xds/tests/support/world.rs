//! A server and a real Envoy.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::proxy::{
    Envoy, Manner, answers, cluster, endpoints, free_port, get, leads_to, listener, route_config,
    until_get,
};
use crate::support::{Running, until};
use chiton_xds::ResourceType::{Cluster, Endpoints};
use chiton_xds::{Change, Options, Programmed, ResourceName, ResourceType, Server};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Envoy's group.
pub const GROUP: &str = "g";

/// The virtual host that each route configuration has from the start.
pub const INERT: &str = "r/chiton.invalid";

/// A server, an Envoy that is connected to it, and a port for a listener.
pub struct World {
    pub server: Running,
    pub envoy: Envoy,
    pub port: u16,
    pub socket: PathBuf,
    _folder: TempDir,
}

impl World {
    /// Envoy serves `changes` on listener `l` with route configuration `r`.
    pub async fn start(manner: Manner, changes: Vec<Change>) -> Self {
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("xds.sock");
        let port = free_port();
        let server = Running::start_at(Server::new(Options::default()), &socket).await;
        let mut all = base(port);
        all.extend(changes);
        server.publish(GROUP, all.clone());
        server.set_all_ready();
        let envoy = Envoy::start_as(manner, folder.path(), &socket).await;
        let world = Self {
            server,
            envoy,
            port,
            socket,
            _folder: folder,
        };
        world.acked(&all).await;
        world
    }

    /// Publishes, and waits until Envoy has acknowledged.
    pub async fn publish(&self, changes: Vec<Change>) {
        self.server.publish(GROUP, changes.clone());
        self.acked(&changes).await;
    }

    /// Moves the virtual host `a.example` ten times from a cluster, `c0` at first, to a new one, while
    /// it is asked, and at the end expects that nobody failed. The backends are `first` and `second`.
    pub async fn replace_clusters_under_load(&self, first: u16, second: u16) {
        until_get(self.port, "a.example", (200, "first")).await;
        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(load(self.port, "a.example", stop.clone()));
        for round in 0..10 {
            let (old, new) = (format!("c{round}"), format!("c{}", round + 1));
            let port = if round % 2 == 0 { second } else { first };
            self.publish(vec![
                cluster(&new, 1),
                endpoints(&new, port),
                leads_to("r", "a.example", &new),
                gone(Cluster, &old),
                gone(Endpoints, &old),
            ])
            .await;
            // A changed cluster waits for endpoints, though these are unchanged.
            self.publish(vec![cluster(&new, 2 + round)]).await;
        }
        until_get(self.port, "a.example", (200, "first")).await;
        stop.store(true, Ordering::Relaxed);
        let (failed, all) = load.await.unwrap();
        assert_eq!(failed, 0, "of {all} requests; {}", self.envoy.log());
        assert!(all > 0);
    }

    pub async fn acked(&self, changes: &[Change]) {
        let names: Vec<ResourceName> = changes
            .iter()
            .filter(|change| matches!(change, Change::Put(_)))
            .map(|change| change.name().clone())
            .collect();
        until(&self.server, |server| {
            server.programmed(GROUP, &names) == Programmed::Acked
        })
        .await;
    }

    pub fn sent(&self, kind: ResourceType) -> u64 {
        self.server.metrics().resources_sent(kind)
    }
}

pub fn base(port: u16) -> Vec<Change> {
    vec![
        listener("l", port, "r"),
        route_config("r"),
        answers("r", "chiton.invalid", "inert"),
    ]
}

pub fn gone(kind: ResourceType, name: &str) -> Change {
    Change::Remove(ResourceName::new(kind, name))
}

/// Requests one after the other until told to stop; returns how many failed and how many there were.
pub async fn load(port: u16, host: &'static str, stop: Arc<AtomicBool>) -> (usize, usize) {
    let address = format!("127.0.0.1:{port}");
    let (mut failed, mut all) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let answer = get(&address, host, "/").await;
        failed += usize::from(answer.is_none_or(|(status, _)| status != 200));
        all += 1;
    }
    (failed, all)
}
