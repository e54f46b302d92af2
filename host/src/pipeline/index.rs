//! The reverse index of reads: from a change to the objects whose latest run read what changed.
//!
//! Nothing here scans all objects. Gets, outputs and policies are found by exact key; lists by kind
//! and namespace, where each distinct selector is checked once against the old and the new labels.

use super::reads::{Read, ReadSet, reaches};
use crate::store::{Difference, Key, Object};
use chiton_ir::GroupKind;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::policy::Policy;
use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

type Readers = HashSet<Key>;
/// A kind, and a namespace or all.
type ListScope = (GroupKind, Option<String>);

/// Who read what.
#[derive(Debug, Default)]
pub(super) struct Index {
    sets: HashMap<Key, ReadSet>,
    objects: HashMap<Key, Readers>,
    outputs: HashMap<Key, Readers>,
    unsynced: HashMap<GroupKind, Readers>,
    policies: HashMap<Key, HashMap<Option<String>, Readers>>,
    lists: HashMap<ListScope, HashMap<LabelSelector, Readers>>,
}

impl Index {
    /// What the latest run of `reader` read replaces what the one before it did.
    pub fn set(&mut self, reader: &Key, set: ReadSet) {
        if self.sets.get(reader) == Some(&set) {
            return;
        }
        self.remove(reader);
        for read in &set.reads {
            self.insert(reader, read);
        }
        self.sets.insert(reader.clone(), set);
    }

    /// Forgets a reader.
    pub fn remove(&mut self, reader: &Key) {
        let Some(set) = self.sets.remove(reader) else {
            return;
        };
        for read in &set.reads {
            match read {
                Read::Object(key) => drop_reader(&mut self.objects, key, reader),
                Read::Output(key) => drop_reader(&mut self.outputs, key, reader),
                Read::Unsynced(kind) => drop_reader(&mut self.unsynced, kind, reader),
                Read::Policies { target, section } => {
                    drop_nested(&mut self.policies, target, section, reader);
                }
                Read::List {
                    kind,
                    namespace,
                    selector,
                } => {
                    let scope = (kind.clone(), namespace.clone());
                    drop_nested(&mut self.lists, &scope, selector, reader);
                }
            }
        }
    }

    fn insert(&mut self, reader: &Key, read: &Read) {
        let readers = match read {
            Read::Object(key) => self.objects.entry(key.clone()).or_default(),
            Read::Output(key) => self.outputs.entry(key.clone()).or_default(),
            Read::Unsynced(kind) => self.unsynced.entry(kind.clone()).or_default(),
            Read::Policies { target, section } => self
                .policies
                .entry(target.clone())
                .or_default()
                .entry(section.clone())
                .or_default(),
            Read::List {
                kind,
                namespace,
                selector,
            } => self
                .lists
                .entry((kind.clone(), namespace.clone()))
                .or_default()
                .entry(selector.clone())
                .or_default(),
        };
        readers.insert(reader.clone());
    }

    /// Readers of an object that came, went or changed, by name or in a list.
    pub fn readers_of_object(&self, change: &Difference) -> BTreeSet<Key> {
        let mut found: BTreeSet<Key> = of(&self.objects, &change.key).cloned().collect();
        let kind = change.key.group_kind();
        let namespace = Some(change.key.namespace.clone());
        for scope in [(kind.clone(), namespace), (kind, None)] {
            for (selector, readers) in self.lists.get(&scope).into_iter().flatten() {
                if selects(selector, change.before.as_deref())
                    || selects(selector, change.after.as_deref())
                {
                    found.extend(readers.iter().cloned());
                }
            }
        }
        found
    }

    /// Readers of an object's documents.
    pub fn readers_of_output(&self, key: &Key) -> impl Iterator<Item = &Key> {
        of(&self.outputs, key)
    }

    /// Objects that wait for a kind.
    pub fn waiting_for(&self, kind: &GroupKind) -> impl Iterator<Item = &Key> {
        of(&self.unsynced, kind)
    }

    /// Readers of the policies attached to one of the targets of a `policy` document, old or new.
    pub fn readers_of_policy(&self, policy: &Policy) -> BTreeSet<Key> {
        let mut found = BTreeSet::new();
        for target in &policy.targets {
            let object = Key::from(&target.object);
            for (section, readers) in self.policies.get(&object).into_iter().flatten() {
                if reaches(policy, &object, section.as_deref()) {
                    found.extend(readers.iter().cloned());
                }
            }
        }
        found
    }

    /// Number of distinct reads that are indexed, for tests that nothing leaks.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.objects.len()
            + self.outputs.len()
            + self.unsynced.len()
            + self.policies.len()
            + self.lists.len()
    }
}

fn selects(selector: &LabelSelector, object: Option<&Object>) -> bool {
    object.is_some_and(|object| selector.matches(&object.labels))
}

fn of<'a, K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(
    map: &'a HashMap<K, Readers>,
    key: &Q,
) -> impl Iterator<Item = &'a Key> {
    map.get(key).into_iter().flatten()
}

fn drop_reader<K: Hash + Eq>(map: &mut HashMap<K, Readers>, key: &K, reader: &Key) {
    if let Some(readers) = map.get_mut(key) {
        readers.remove(reader);
        if readers.is_empty() {
            map.remove(key);
        }
    }
}

fn drop_nested<K: Hash + Eq, L: Hash + Eq>(
    map: &mut HashMap<K, HashMap<L, Readers>>,
    key: &K,
    inner: &L,
    reader: &Key,
) {
    if let Some(nested) = map.get_mut(key) {
        drop_reader(nested, inner, reader);
        if nested.is_empty() {
            map.remove(key);
        }
    }
}
