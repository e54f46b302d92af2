//! What proxies have been given, so that only differences leave.

use chiton_xds::{Change, Resource, ResourceName, ResourceType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Published versions, and what is to be published next.
#[derive(Debug, Default)]
pub struct Published {
    fleets: BTreeMap<Arc<str>, Versions>,
    pending: BTreeMap<Arc<str>, BTreeMap<ResourceName, Option<Resource>>>,
}

type Versions = BTreeMap<ResourceName, String>;

impl Published {
    /// The resource shall be there in this form.
    pub fn put(&mut self, fleet: &Arc<str>, resource: Resource) {
        let pending = self.pending.entry(fleet.clone()).or_default();
        pending.insert(resource.name.clone(), Some(resource));
    }

    /// The resource shall not be there.
    pub fn remove(&mut self, fleet: &Arc<str>, name: ResourceName) {
        self.pending
            .entry(fleet.clone())
            .or_default()
            .insert(name, None);
    }

    /// What is different from what was published before, by fleet, in the order of resources. An
    /// endpoint set that was put leaves with its cluster even if it is the same: a cluster that
    /// changed waits for it.
    pub fn take(&mut self) -> BTreeMap<String, Vec<Change>> {
        let mut all = BTreeMap::new();
        for (fleet, pending) in std::mem::take(&mut self.pending) {
            let versions = self.fleets.entry(fleet.clone()).or_default();
            let mut changes = Vec::new();
            let mut clusters = BTreeSet::new();
            for (name, resource) in pending {
                let Some(resource) = resource else {
                    changes.extend(versions.remove(&name).map(|_| Change::Remove(name)));
                    continue;
                };
                let before = versions.insert(name.clone(), resource.version.clone());
                let is_new = before.as_ref() != Some(&resource.version);
                match name.kind {
                    ResourceType::Cluster if is_new => drop(clusters.insert(name.name)),
                    ResourceType::Endpoints if clusters.contains(&name.name) => {}
                    _ if is_new => {}
                    _ => continue,
                }
                changes.push(Change::Put(resource));
            }
            if versions.is_empty() {
                self.fleets.remove(&fleet);
            }
            if !changes.is_empty() {
                all.insert(fleet.to_string(), changes);
            }
        }
        all
    }
}
