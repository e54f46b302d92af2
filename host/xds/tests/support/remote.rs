//! A real Envoy on a way to its server that can be disturbed.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::faulty::Way;
use crate::proxy::{
    Envoy, Manner, answers, cluster, does, endpoints, free_port, listener, port_of, route_config,
};
use crate::support::{PATIENCE, Running, until};
use crate::world::GROUP;
use chiton_xds::ResourceType::{Endpoints, VirtualHost};
use chiton_xds::{Change, Options, Programmed, ResourceName, ResourceType};
use std::collections::BTreeMap;
use std::time::Duration;
use tempfile::TempDir;

/// A server, an Envoy that reaches it by a way that can be disturbed, and a port for a listener.
pub struct Remote {
    pub server: Running,
    pub envoy: Envoy,
    pub way: Way,
    pub port: u16,
    _folder: TempDir,
}

impl Remote {
    /// Envoy serves `changes` on listener `l` with route configuration `r`.
    pub async fn start(manner: Manner, options: Options, changes: Vec<Change>) -> Self {
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
    pub async fn settle(&self) {
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
    pub fn programmed(&self) -> Programmed {
        let published = self.server.resources(GROUP);
        let names: Vec<ResourceName> = published.into_iter().map(|r| r.name).collect();
        self.server.programmed(GROUP, &names)
    }

    pub async fn until_streams(&self, count: u64) {
        until(&self.server, |server| server.metrics().streams() == count).await;
    }

    /// Resources sent and removed so far.
    pub fn sent(&self, kind: ResourceType) -> (u64, u64) {
        let metrics = self.server.metrics();
        (
            metrics.resources_sent(kind),
            metrics.resources_removed(kind),
        )
    }
}

pub fn host(number: usize, body: &str) -> Change {
    answers("r", &format!("h{number}.example"), body)
}

pub fn hosts() -> Vec<Change> {
    (0..20).map(|number| host(number, "1")).collect()
}

/// Hosts and two clusters without endpoints.
pub fn hosts_and_clusters() -> Vec<Change> {
    let mut all = hosts();
    for name in ["kept", "old"] {
        all.extend([cluster(name, 1), endpoints(name, 1)]);
    }
    all
}
