//! One immutable state of the store.

use super::{Change, Key, Object};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{GroupKind, ObjectRef};
use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use std::collections::BTreeSet;
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
        // Keys of a kind are in order of namespace and name, so a namespace is a range of them.
        let first = Key::new(&kind.group, &kind.kind, namespace.unwrap_or_default(), "");
        self.kinds
            .get(kind)
            .into_iter()
            .flat_map(move |objects| objects.range(first.clone()..))
            .map(|(_, object)| object)
            .take_while(move |object| {
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

    /// What is different in `next`: objects, sorted by key, and kinds that are synced only there.
    /// Costs what differs, not what is there, where `next` came from `self` by commits.
    #[must_use]
    pub fn diff(&self, next: &Self) -> Diff {
        let empty = Kind::new();
        let mut objects = Vec::new();
        let kinds: BTreeSet<&GroupKind> = self.kinds.keys().chain(next.kinds.keys()).collect();
        for kind in kinds {
            let before = self.kinds.get(kind).unwrap_or(&empty);
            let after = next.kinds.get(kind).unwrap_or(&empty);
            if !before.ptr_eq(after) {
                objects.extend(before.diff(after).filter_map(|item| difference(&item)));
            }
        }
        let synced = next
            .synced
            .iter()
            .filter(|kind| !self.synced.contains(*kind))
            .cloned()
            .collect();
        Diff { objects, synced }
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

/// What is different between two snapshots.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Objects that came, went or changed.
    pub objects: Vec<Difference>,
    /// Kinds that became synced.
    pub synced: Vec<GroupKind>,
}

impl Diff {
    /// Whether nothing is different.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.synced.is_empty()
    }
}

/// One object that differs between two snapshots.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Identity.
    pub key: Key,
    /// The object before; none if it is new.
    pub before: Option<Arc<Object>>,
    /// The object after; none if it is gone.
    pub after: Option<Arc<Object>>,
}

fn difference(item: &DiffItem<'_, '_, Key, Arc<Object>>) -> Option<Difference> {
    let (key, before, after) = match item {
        DiffItem::Add(key, after) => (*key, None, Some(*after)),
        DiffItem::Remove(key, before) => (*key, Some(*before), None),
        DiffItem::Update { old, new } if !old.1.same_content(new.1) => {
            (new.0, Some(old.1), Some(new.1))
        }
        DiffItem::Update { .. } => return None,
    };
    Some(Difference {
        key: key.clone(),
        before: before.cloned(),
        after: after.cloned(),
    })
}

/// What a commit changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Told {
    /// The object came, went or changed.
    Object(Key),
    /// The kind is synced now.
    Synced(GroupKind),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn object(name: &str, body: &str) -> Arc<Object> {
        Arc::new(Object {
            key: Key::new("", "Service", "default", name),
            api_version: "v1".into(),
            labels: std::collections::BTreeMap::new(),
            generation: 0,
            created: None,
            body: Arc::from(body.as_bytes()),
            problem: None,
            origin: None,
        })
    }

    fn after(before: &Snapshot, changes: &[Change]) -> Snapshot {
        let mut next = before.clone();
        next.apply(changes);
        next
    }

    #[test]
    fn a_diff_has_what_came_went_and_changed_and_nothing_else() {
        let many: Vec<Change> = (0..1000)
            .map(|n| Change::Put(object(&format!("many-{n:04}"), "{}")))
            .collect();
        let start = after(&Snapshot::default(), &many);
        let next = after(
            &start,
            &[
                Change::Put(object("many-0500", "{\"new\":1}")),
                Change::Put(object("many-0501", "{}")),
                Change::Delete(Key::new("", "Service", "default", "many-0999")),
                Change::Put(object("new", "{}")),
                Change::Synced(GroupKind::new("", "Secret")),
            ],
        );
        let diff = start.diff(&next);
        let names: Vec<_> = diff
            .objects
            .iter()
            .map(|d| (d.key.name.as_str(), d.before.is_some(), d.after.is_some()))
            .collect();
        assert_eq!(
            names,
            [
                ("many-0500", true, true),
                ("many-0999", true, false),
                ("new", false, true)
            ]
        );
        assert_eq!(diff.synced, [GroupKind::new("", "Secret")]);
        assert!(next.diff(&next.clone()).is_empty());
    }
}
