//! One immutable state of the store.

use super::{Change, Key, Object};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{GroupKind, ObjectRef};
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

/// Objects of one kind, by namespace and name.
type Kind = OrdMap<Key, Arc<Object>>;

/// All input objects at one moment. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    kinds: OrdMap<GroupKind, Kind>,
    synced: OrdSet<GroupKind>,
}

impl Snapshot {
    /// The object, if it is there.
    #[must_use]
    pub fn get(&self, object: &ObjectRef) -> Option<&Arc<Object>> {
        self.kinds
            .get(&object.group_kind())?
            .get(&Key::from(object))
    }

    /// Objects of a kind, in one namespace or all, that the selector selects; sorted by namespace
    /// and name.
    pub fn list<'a>(
        &'a self,
        kind: &GroupKind,
        namespace: Option<&'a str>,
        selector: &'a LabelSelector,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        self.kinds
            .get(kind)
            .into_iter()
            .flat_map(|objects| objects.values())
            .filter(move |object| {
                namespace.is_none_or(|namespace| object.key.namespace == namespace)
            })
            .filter(move |object| selector.matches(&object.labels))
    }

    /// Every object, sorted by kind, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.kinds.values().flat_map(OrdMap::values)
    }

    /// Number of objects of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (&GroupKind, usize)> {
        self.kinds
            .iter()
            .map(|(kind, objects)| (kind, objects.len()))
    }

    /// Whether the first list of the kind has arrived.
    #[must_use]
    pub fn is_synced(&self, kind: &GroupKind) -> bool {
        self.synced.contains(kind)
    }

    /// Applies changes and returns the keys of what is different now.
    pub(super) fn apply(&mut self, changes: &[Change]) -> Vec<Told> {
        let mut told = Vec::new();
        for change in changes {
            match change {
                Change::Put(object) => {
                    let kind = self.kinds.entry(object.key.group_kind()).or_default();
                    let before = kind.insert(object.key.clone(), object.clone());
                    if before.is_none_or(|before| !before.same_content(object)) {
                        told.push(Told::Object(object.key.clone()));
                    }
                }
                Change::Delete(key) => {
                    let removed = self
                        .kinds
                        .get_mut(&key.group_kind())
                        .is_some_and(|kind| kind.remove(key).is_some());
                    if removed {
                        told.push(Told::Object(key.clone()));
                    }
                }
                Change::Synced(kind) => {
                    if self.synced.insert(kind.clone()).is_none() {
                        told.push(Told::Synced(kind.clone()));
                    }
                }
            }
        }
        told
    }
}

/// What a commit changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Told {
    /// The object came, went or changed.
    Object(Key),
    /// The kind is synced now.
    Synced(GroupKind),
}
