//! Sending clusters and their endpoints.

use super::dirty::Dirty;
use super::ids::resource;
use super::references::Source;
use super::{Synchronizer, envoy};
use crate::pipeline::World;
use chiton_xds::{Resource, ResourceType};
use std::collections::BTreeSet;

impl Synchronizer {
    /// Sends what changed of clusters and endpoints. Routes were looked at before: a cluster that
    /// none of them uses is not there.
    pub(super) fn update_backends(&mut self, world: &World, dirty: &Dirty) {
        for (fleet, name) in dirty
            .clusters
            .iter()
            .filter(|id| !self.clusters.is_used(id))
        {
            for kind in [ResourceType::Cluster, ResourceType::Endpoints] {
                self.published.remove(fleet, resource(kind, name));
            }
        }
        let changed = dirty
            .backends
            .iter()
            .flat_map(|object| self.clusters.of_object(object))
            .chain(dirty.clusters.iter().map(|(_, name)| name));
        let changed: BTreeSet<String> = changed.cloned().collect();
        for name in &changed {
            if let Some(cluster) = self.cluster(name, world) {
                self.put(name, &cluster);
            }
        }
        let endpoints = dirty
            .endpoints
            .iter()
            .flat_map(|service| self.clusters.of_object(service));
        let endpoints: BTreeSet<String> = endpoints.chain(&changed).cloned().collect();
        for name in &endpoints {
            if let Some(set) = self.endpoint_set(name, world) {
                self.put(name, &set);
            }
        }
    }

    fn cluster(&self, name: &str, world: &World) -> Option<Resource> {
        let cluster = self.clusters.source(name)?.cluster(&world.inputs).ok()?;
        Some(envoy::cluster(&cluster))
    }

    /// The endpoints of a cluster of a Service; other clusters have their own.
    fn endpoint_set(&self, name: &str, world: &World) -> Option<Resource> {
        let Source::Service(service, port) = self.clusters.source(name)? else {
            return None;
        };
        let set = self.slices.endpoints(service, *port, &world.inputs);
        Some(envoy::endpoints(&set))
    }

    fn put(&mut self, cluster: &str, resource: &Resource) {
        let fleets: Vec<_> = self.clusters.fleets(cluster).cloned().collect();
        for fleet in fleets {
            self.published.put(&fleet, resource.clone());
        }
    }
}
