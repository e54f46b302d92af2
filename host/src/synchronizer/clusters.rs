//! Clusters: one for each backend, shared by all routes, there as long as a route uses it.

use super::followed;
use super::references::Source;
use crate::store::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Clusters that a route uses, by fleet and name.
pub type Uses = BTreeMap<(Arc<str>, String), Source>;

/// Which routes use which clusters.
#[derive(Debug, Default)]
pub struct Clusters {
    by_name: BTreeMap<String, Cluster>,
    by_object: BTreeMap<Key, BTreeSet<String>>,
}

#[derive(Debug)]
struct Cluster {
    source: Source,
    users: BTreeMap<Arc<str>, BTreeSet<Key>>,
}

impl Clusters {
    /// Replaces what a route used by what it uses now and returns the clusters that are new, or no
    /// longer used, in a fleet.
    pub fn set(&mut self, route: &Key, old: &Uses, uses: &Uses) -> BTreeSet<(Arc<str>, String)> {
        let mut touched = BTreeSet::new();
        for (id, _) in old.iter().filter(|(id, _)| !uses.contains_key(*id)) {
            if self.release(route, id) {
                touched.insert(id.clone());
            }
        }
        for (id, source) in uses.iter().filter(|(id, _)| !old.contains_key(*id)) {
            if self.hold(route, id, source) {
                touched.insert(id.clone());
            }
        }
        touched
    }

    fn hold(&mut self, route: &Key, (fleet, name): &(Arc<str>, String), source: &Source) -> bool {
        self.by_object
            .entry(source.object().clone())
            .or_default()
            .insert(name.clone());
        let cluster = self.by_name.entry(name.clone()).or_insert_with(|| Cluster {
            source: source.clone(),
            users: BTreeMap::new(),
        });
        let users = cluster.users.entry(fleet.clone()).or_default();
        users.insert(route.clone());
        users.len() == 1
    }

    fn release(&mut self, route: &Key, (fleet, name): &(Arc<str>, String)) -> bool {
        let Some(cluster) = self.by_name.get_mut(name) else {
            return false;
        };
        followed::remove(&mut cluster.users, fleet, route);
        let unused = !cluster.users.contains_key(fleet);
        if cluster.users.is_empty() {
            let object = cluster.source.object().clone();
            self.by_name.remove(name);
            followed::remove(&mut self.by_object, &object, name);
        }
        unused
    }

    /// Names of the clusters that are made from an object.
    pub fn of_object(&self, object: &Key) -> impl Iterator<Item = &String> {
        self.by_object.get(object).into_iter().flatten()
    }

    /// What a cluster is made from.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.by_name.get(name).map(|cluster| &cluster.source)
    }

    /// Fleets in which a cluster is used.
    pub fn fleets(&self, name: &str) -> impl Iterator<Item = &Arc<str>> {
        self.by_name
            .get(name)
            .into_iter()
            .flat_map(|cluster| cluster.users.keys())
    }

    /// Whether a cluster is used in a fleet.
    #[must_use]
    pub fn is_used(&self, (fleet, name): &(Arc<str>, String)) -> bool {
        self.by_name
            .get(name)
            .is_some_and(|cluster| cluster.users.contains_key(fleet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_goes_with_its_last_user() {
        let mut clusters = Clusters::default();
        let service = Key::new("", "Service", "default", "s");
        let id: (Arc<str>, String) = ("default".into(), "service_default_s_80".into());
        let uses: Uses = [(id.clone(), Source::Service(service.clone(), 80))].into();
        let route = |name| Key::new("g", "HTTPRoute", "default", name);
        let none = Uses::new();
        let touched = clusters.set(&route("a"), &none, &uses);
        assert_eq!(touched, [id.clone()].into());
        assert!(clusters.set(&route("b"), &none, &uses).is_empty());
        assert!(clusters.set(&route("a"), &uses, &none).is_empty());
        assert_eq!(clusters.of_object(&service).count(), 1);
        assert_eq!(clusters.set(&route("b"), &uses, &none), [id].into());
        assert_eq!(clusters.of_object(&service).count(), 0);
    }
}
