//! The groups of clients and what each of them should have.

use crate::snapshot::Snapshot;
use crate::{Change, Resource, ResourceType};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The newest snapshot of every group.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: HashMap<String, watch::Sender<Arc<Snapshot>>>,
    all_ready: bool,
}

impl State {
    fn group(&mut self, name: &str) -> &watch::Sender<Arc<Snapshot>> {
        let ready = self.all_ready;
        self.groups
            .entry(name.to_owned())
            .or_insert_with(|| watch::Sender::new(Arc::new(Snapshot::empty(ready))))
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Snapshot) -> bool) {
        self.group(name).send_if_modified(|current| {
            let mut next = Snapshot::clone(current);
            let different = change(&mut next);
            if different {
                *current = Arc::new(next);
            }
            different
        });
    }

    fn replace(&mut self, name: &str, resources: Vec<Resource>) {
        self.change(name, |snapshot| {
            let different = snapshot.replace(resources);
            make_ready(snapshot) || different
        });
    }
}

impl Groups {
    /// Applies changes to a group at once.
    pub fn publish(&self, group: &str, changes: Vec<Change>) {
        self.lock()
            .change(group, |snapshot| snapshot.apply(changes));
    }

    /// Has a group that nothing was published for and that is not ready serve these, but for the
    /// withheld types. False for another group, which is left as it is.
    pub fn restore(
        &self,
        group: &str,
        resources: Vec<Resource>,
        withheld: &[ResourceType],
    ) -> bool {
        let mut restored = false;
        self.lock().change(group, |snapshot| {
            restored = snapshot.generation == 0 && !snapshot.is_ready();
            if restored {
                snapshot.replace(resources);
                snapshot.silence(withheld);
            }
            restored
        });
        restored
    }

    /// Makes these all that a group has, and the group ready, at once.
    pub fn replace(&self, group: &str, resources: Vec<Resource>) {
        self.lock().replace(group, resources);
    }

    /// [`Groups::replace`] for all groups at once. Those that are not named have nothing.
    pub fn replace_all(&self, mut groups: BTreeMap<String, Vec<Resource>>) {
        let mut state = self.lock();
        state.all_ready = true;
        for name in state.groups.keys() {
            groups.entry(name.clone()).or_default();
        }
        for (name, resources) in groups {
            state.replace(&name, resources);
        }
    }

    /// Names of all groups that something was published for, sorted.
    pub fn names(&self) -> Vec<String> {
        let state = self.lock();
        let published = state
            .groups
            .iter()
            .filter(|(_, sender)| sender.borrow().generation > 0);
        let mut names: Vec<String> = published.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Takes everything from a group's clients; forgets the group if it has none.
    pub fn remove(&self, group: &str) {
        let mut state = self.lock();
        if !state.groups.contains_key(group) {
            return;
        }
        state.change(group, Snapshot::clear);
        if state.group(group).receiver_count() == 0 {
            state.groups.remove(group);
        }
    }

    /// Ends the silence towards a group.
    pub fn set_ready(&self, group: &str) {
        self.lock().change(group, make_ready);
    }

    /// Ends the silence towards all groups, those to come included.
    pub fn set_all_ready(&self) {
        let mut state = self.lock();
        state.all_ready = true;
        let names: Vec<String> = state.groups.keys().cloned().collect();
        for name in names {
            state.change(&name, make_ready);
        }
    }

    /// The group's newest snapshot, now and later. An unknown group is an empty one.
    pub fn watch(&self, group: &str) -> watch::Receiver<Arc<Snapshot>> {
        self.lock().group(group).subscribe()
    }

    /// A client left: a group that only clients knew of is forgotten, so that they cannot fill the
    /// memory with names.
    pub fn release(&self, group: &str) {
        let mut state = self.lock();
        let all_ready = state.all_ready;
        if let Some(sender) = state.groups.get(group) {
            let unused = sender.receiver_count() == 0;
            let snapshot = sender.borrow().clone();
            if unused && snapshot.generation == 0 && snapshot.is_ready() == all_ready {
                state.groups.remove(group);
            }
        }
    }

    /// The group's newest snapshot; none if there is no such group.
    pub fn current(&self, group: &str) -> Option<Arc<Snapshot>> {
        self.lock()
            .groups
            .get(group)
            .map(|sender| sender.borrow().clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Snapshots are replaced whole, so a panic leaves none half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_ready(snapshot: &mut Snapshot) -> bool {
    let was_ready = snapshot.is_ready();
    snapshot.silence(&[]);
    !was_ready
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Resource, ResourceType};

    fn cluster(body: &'static str) -> Change {
        Change::Put(Resource::new(ResourceType::Cluster, "c", body))
    }

    #[test]
    fn a_publish_of_nothing_new_wakes_nobody() {
        let groups = Groups::default();
        let mut watch = groups.watch("g");
        groups.publish("g", vec![cluster("1")]);
        assert!(watch.has_changed().unwrap());
        watch.mark_unchanged();
        groups.publish("g", vec![cluster("1")]);
        groups.publish("other", vec![cluster("2")]);
        assert!(!watch.has_changed().unwrap());
    }

    #[test]
    fn groups_become_ready_one_by_one_or_all_with_those_to_come() {
        let groups = Groups::default();
        groups.publish("a", vec![cluster("1")]);
        groups.publish("b", vec![cluster("1")]);
        groups.set_ready("a");
        assert!(groups.current("a").unwrap().is_ready());
        assert!(!groups.current("b").unwrap().is_ready());
        groups.set_all_ready();
        assert!(groups.current("b").unwrap().is_ready());
        assert!(groups.watch("new").borrow().is_ready());
    }

    #[test]
    fn only_a_group_that_nothing_was_published_for_is_restored() {
        let groups = Groups::default();
        let resource = |body: &'static str| Resource::new(ResourceType::Cluster, "c", body);
        assert!(groups.restore("g", vec![resource("old")], &[ResourceType::Secret]));
        let restored = groups.current("g").unwrap();
        assert!(
            !restored.is_silent(ResourceType::Cluster) && restored.is_silent(ResourceType::Secret)
        );
        assert!(!groups.restore("g", vec![resource("older")], &[]));
        groups.publish("published", vec![cluster("1")]);
        assert!(!groups.restore("published", vec![resource("old")], &[]));
        groups.set_all_ready();
        assert!(!groups.restore("late", vec![resource("old")], &[]));
        assert!(groups.current("late").unwrap().is_empty());
    }

    #[test]
    fn replacing_all_groups_empties_those_that_are_gone_and_makes_all_ready() {
        let groups = Groups::default();
        let resource = |body: &'static str| Resource::new(ResourceType::Cluster, "c", body);
        for group in ["gone", "stays"] {
            groups.restore(group, vec![resource("old")], &[]);
        }
        let unchanged = groups.current("stays").unwrap().generation;
        groups.replace_all(BTreeMap::from([
            ("stays".to_owned(), vec![resource("old")]),
            ("new".to_owned(), vec![resource("1")]),
        ]));
        assert!(groups.current("gone").unwrap().is_empty());
        assert_eq!(groups.current("stays").unwrap().generation, unchanged);
        assert!(groups.current("new").unwrap().is_ready());
        assert!(groups.watch("later").borrow().is_ready());
        assert_eq!(groups.names(), ["gone", "new", "stays"]);
    }

    #[test]
    fn a_removed_group_is_empty_for_its_clients_and_forgotten_without() {
        let groups = Groups::default();
        groups.publish("g", vec![cluster("1")]);
        let watch = groups.watch("g");
        groups.remove("g");
        assert!(watch.borrow().is_empty());
        drop(watch);
        groups.remove("g");
        assert!(groups.current("g").is_none());
    }

    #[test]
    fn a_group_that_only_a_client_knew_of_goes_with_it() {
        let groups = Groups::default();
        groups.publish("known", vec![cluster("1")]);
        for group in ["known", "unknown"] {
            drop(groups.watch(group));
            groups.release(group);
        }
        assert!(groups.current("known").is_some());
        assert!(groups.current("unknown").is_none());
    }
}
