//! One immutable state of a group: what its clients should have.
//!
//! A publish makes the next snapshot, which shares all that did not change. A stream holds the
//! snapshot that it saw last, and finds what is new by comparing the two: shared parts are skipped,
//! so that costs what changed, and however slow a stream is, it never sees half of a publish.

use crate::inline::inline;
use crate::per_type::PerType;
use crate::resource::route_config_of;
use crate::{Change, Resource, ResourceName, ResourceType};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use prost::bytes::Bytes;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A resource of a snapshot.
#[derive(Debug)]
pub(crate) struct Entry {
    pub name: Arc<str>,
    pub version: Arc<str>,
    pub body: Bytes,
}

impl Entry {
    /// About the bytes that it takes in a response: what surrounds name, version and body is the
    /// type URL and a few tags and lengths.
    pub fn wire_size(&self) -> usize {
        const AROUND: usize = 96;
        self.body.len() + self.name.len() + self.version.len() + AROUND
    }
}

/// Versions are content hashes, so bodies need not be compared.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Eq for Entry {}

impl From<Resource> for Entry {
    fn from(resource: Resource) -> Self {
        Self {
            name: resource.name.name.into(),
            version: resource.version.into(),
            body: resource.body,
        }
    }
}

/// The forms of resources that any client of a group accepted last, of clients whose responses repeat
/// what is unchanged. A client that reconnects while a newer form is rejected has the older one: it is
/// repeated, or the client would lose it.
#[derive(Debug, Default)]
pub(crate) struct Accepted(Mutex<Forms>);

type Forms = HashMap<(ResourceType, Arc<str>), Arc<Entry>>;

impl Accepted {
    /// The form that was accepted last.
    pub fn get(&self, kind: ResourceType, name: &Arc<str>) -> Option<Arc<Entry>> {
        self.lock().get(&(kind, name.clone())).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Forms> {
        // No code that could panic runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Counts publishes.
    pub generation: u64,
    /// Types that clients are not told of yet.
    silent: PerType<bool>,
    /// What clients accepted last. All snapshots of a group share it.
    pub accepted: Arc<Accepted>,
    resources: PerType<OrdMap<Arc<str>, Arc<Entry>>>,
    /// For each route configuration its form with its virtual hosts in it, made when a stream first
    /// needs it. Shared with the snapshots before in which it is the same.
    inlined: OrdMap<Arc<str>, Arc<OnceLock<Arc<Entry>>>>,
}

impl Snapshot {
    /// A snapshot without resources.
    pub fn empty(ready: bool) -> Self {
        let mut snapshot = Self::default();
        if !ready {
            snapshot.silence(&ResourceType::ALL);
        }
        snapshot
    }

    /// Whether clients may be told of all types.
    pub fn is_ready(&self) -> bool {
        self.silent.iter().all(|(_, silent)| !silent)
    }

    /// Whether clients may not be told of the type yet.
    pub fn is_silent(&self, kind: ResourceType) -> bool {
        self.silent[kind]
    }

    /// From now on clients are not told of these types, but of all others.
    pub fn silence(&mut self, kinds: &[ResourceType]) {
        self.silent = PerType::default();
        for kind in kinds {
            self.silent[*kind] = true;
        }
    }

    /// The resource, if it is there.
    pub fn get(&self, kind: ResourceType, name: &str) -> Option<&Arc<Entry>> {
        self.resources[kind].get(name)
    }

    /// Number of resources of a type.
    pub fn len(&self, kind: ResourceType) -> usize {
        self.resources[kind].len()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.resources.iter().all(|(_, map)| map.is_empty())
    }

    /// All resources of a type, sorted by name.
    pub fn all(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<Entry>> {
        self.resources[kind].values()
    }

    /// The virtual hosts of a route configuration, sorted by name.
    pub fn virtual_hosts<'a>(
        &'a self,
        route_config: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        let (from, to) = prefix(route_config);
        self.resources[ResourceType::VirtualHost]
            .range::<_, str>((Bound::Included(from.as_str()), Bound::Excluded(to.as_str())))
            .map(|(_, entry)| entry)
            .filter(move |entry| route_config_of(&entry.name) == Some(route_config))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The route configuration with its virtual hosts in it, for clients without VHDS.
    pub fn inlined(&self, route_config: &str) -> Option<&Arc<Entry>> {
        let entry = self.get(ResourceType::RouteConfiguration, route_config)?;
        let cell = self.inlined.get(route_config)?;
        Some(cell.get_or_init(|| {
            let virtual_hosts: Vec<_> = self.virtual_hosts(route_config).collect();
            Arc::new(inline(entry, virtual_hosts.into_iter()))
        }))
    }

    /// Applies changes; false if everything was so already.
    pub fn apply(&mut self, changes: Vec<Change>) -> bool {
        let mut different = false;
        let mut route_configs: BTreeSet<String> = BTreeSet::new();
        for change in changes {
            let name = change.name();
            let route_config = match name.kind {
                ResourceType::RouteConfiguration => Some(name.name.clone()),
                _ => name.route_config().map(str::to_owned),
            };
            let applied = match change {
                Change::Put(resource) => self.put(resource),
                Change::Remove(name) => self.remove(&name),
            };
            if applied {
                different = true;
                route_configs.extend(route_config);
            }
        }
        for route_config in route_configs {
            if self
                .get(ResourceType::RouteConfiguration, &route_config)
                .is_some()
            {
                self.inlined.insert(route_config.into(), Arc::default());
            } else {
                self.inlined.remove(route_config.as_str());
            }
        }
        self.generation += u64::from(different);
        different
    }

    /// Removes everything; false if there was nothing.
    pub fn clear(&mut self) -> bool {
        let different = !self.is_empty();
        self.resources = PerType::default();
        self.inlined = OrdMap::default();
        self.accepted.lock().clear();
        self.generation += u64::from(different);
        different
    }

    /// Makes these all that there is; false if it was so already.
    pub fn replace(&mut self, resources: Vec<Resource>) -> bool {
        let stay: HashSet<ResourceName> = resources
            .iter()
            .map(|resource| resource.name.clone())
            .collect();
        let gone = self
            .resources()
            .map(|resource| resource.name)
            .filter(|name| !stay.contains(name))
            .map(Change::Remove);
        let changes = gone
            .chain(resources.into_iter().map(Change::Put))
            .collect::<Vec<_>>();
        self.apply(changes)
    }

    /// Everything, by type and name.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        self.resources.iter().flat_map(|(kind, map)| {
            map.values().map(move |entry| Resource {
                name: ResourceName::new(kind, &*entry.name),
                version: entry.version.to_string(),
                body: entry.body.clone(),
            })
        })
    }

    /// A client accepted a form of a resource that is published.
    pub fn remember(&self, kind: ResourceType, entry: &Arc<Entry>) {
        if self.get(kind, &entry.name).is_some() {
            let mut accepted = self.accepted.lock();
            accepted.insert((kind, entry.name.clone()), entry.clone());
        }
    }

    fn remove(&mut self, name: &ResourceName) -> bool {
        let removed = self.resources[name.kind].remove(name.name.as_str());
        if let Some(entry) = &removed {
            let mut accepted = self.accepted.lock();
            accepted.remove(&(name.kind, entry.name.clone()));
        }
        removed.is_some()
    }

    fn put(&mut self, resource: Resource) -> bool {
        let map = &mut self.resources[resource.name.kind];
        let before = map.get(resource.name.name.as_str());
        if before.is_some_and(|before| *before.version == *resource.version) {
            return false;
        }
        let entry = Arc::new(Entry::from(resource));
        map.insert(entry.name.clone(), entry);
        true
    }

    /// Names of a type that are new, changed or gone in `next`, sorted.
    pub fn changed_names(&self, next: &Self, kind: ResourceType) -> Vec<Arc<str>> {
        self.resources[kind]
            .diff(&next.resources[kind])
            .map(|item| match item {
                DiffItem::Add(name, _)
                | DiffItem::Remove(name, _)
                | DiffItem::Update { new: (name, _), .. } => name.clone(),
            })
            .collect()
    }
}

/// Bounds (inclusive, exclusive) of the names that start with `<route config>/`: `0` is the
/// character after `/`.
pub(crate) fn prefix(route_config: &str) -> (String, String) {
    (format!("{route_config}/"), format!("{route_config}0"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn put(kind: ResourceType, name: &str, body: &str) -> Change {
        Change::Put(Resource::new(kind, name, body.to_owned()))
    }

    #[test]
    fn what_was_so_already_is_no_change() {
        let mut snapshot = Snapshot::default();
        assert!(snapshot.apply(vec![put(ResourceType::Cluster, "c", "1")]));
        assert!(!snapshot.apply(vec![put(ResourceType::Cluster, "c", "1")]));
        let gone = ResourceName::new(ResourceType::Cluster, "x");
        assert!(!snapshot.apply(vec![Change::Remove(gone)]));
        assert_eq!(snapshot.generation, 1);
        assert!(snapshot.clear());
        assert!(!snapshot.clear());
    }

    #[test]
    fn virtual_hosts_of_a_route_config_are_its_own() {
        let mut snapshot = Snapshot::default();
        let names = ["a/x", "a/y", "a-b/x", "a/b/x", "ab/x", "a"];
        snapshot.apply(
            names
                .iter()
                .map(|name| put(ResourceType::VirtualHost, name, ""))
                .collect(),
        );
        let found: Vec<_> = snapshot
            .virtual_hosts("a")
            .map(|entry| entry.name.to_string())
            .collect();
        assert_eq!(found, ["a/x", "a/y"]);
    }

    proptest! {
        /// The comparison of two snapshots finds exactly what differs, whatever is shared.
        #[test]
        fn a_difference_is_complete(
            start in proptest::collection::vec((0..400_u32, 0..3_u8), 0..400),
            steps in proptest::collection::vec((0..400_u32, 0..4_u8), 0..60),
        ) {
            let change = |(name, body): (u32, u8)| {
                let name = format!("c{name}");
                if body == 3 {
                    Change::Remove(ResourceName::new(ResourceType::Cluster, name))
                } else {
                    put(ResourceType::Cluster, &name, &body.to_string())
                }
            };
            let mut before = Snapshot::default();
            before.apply(start.into_iter().map(change).collect());
            let mut after = before.clone();
            after.apply(steps.into_iter().map(change).collect());

            let plain = |snapshot: &Snapshot| -> BTreeMap<Arc<str>, Arc<str>> {
                snapshot
                    .all(ResourceType::Cluster)
                    .map(|entry| (entry.name.clone(), entry.version.clone()))
                    .collect()
            };
            let (old, new) = (plain(&before), plain(&after));
            let mut expected: Vec<Arc<str>> = old.keys().chain(new.keys()).cloned().collect();
            expected.sort();
            expected.dedup();
            expected.retain(|name| old.get(name) != new.get(name));
            prop_assert_eq!(before.changed_names(&after, ResourceType::Cluster), expected);
        }
    }
}
