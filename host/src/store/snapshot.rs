//! One immutable state of the store.

use super::identity::{KindParts, Named, Parts};
use super::selection::{Handle, Place, Posting};
use super::text::Text;
use super::{Change, Key, Labels, Object};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{GroupKind, ObjectRef};
use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

/// All input objects at one moment. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    objects: OrdMap<Key, Arc<Object>>,
    /// Labels of all objects, so that lists by labels need no scan.
    labels: OrdSet<Posting>,
    /// Number of objects of each kind that ever had one.
    counts: OrdMap<GroupKind, usize>,
    synced: OrdSet<GroupKind>,
}

impl Snapshot {
    /// The object, if it is there.
    #[must_use]
    pub fn get(&self, object: &impl Named) -> Option<&Arc<Object>> {
        self.objects.get(&object.parts())
    }

    /// The key of an object, whether it is there or not: the object's own copy if it is.
    #[must_use]
    pub fn key(&self, object: &ObjectRef) -> Key {
        self.get(object)
            .map_or_else(|| object.into(), |found| found.key.clone())
    }

    /// Objects of a kind, in one namespace or all, that the selector selects; sorted by namespace
    /// and name. Costs what one requirement of the selector leaves (see [`Handle`]).
    #[must_use]
    pub fn list<'a>(
        &'a self,
        kind: &'a GroupKind,
        namespace: Option<&'a str>,
        selector: &'a LabelSelector,
    ) -> Box<dyn Iterator<Item = &'a Arc<Object>> + 'a> {
        let found: Box<dyn Iterator<Item = &Arc<Object>>> = match Handle::of(selector) {
            None => Box::new(self.of_kind(kind, namespace)),
            Some(handle) => {
                let mut keys: Vec<&Key> = match handle {
                    Handle::Label(label) => self.with_label(kind, namespace, label).collect(),
                    Handle::Pairs(label, values) => values
                        .iter()
                        .flat_map(|value| self.with_pair(kind, namespace, label, value))
                        .collect(),
                };
                keys.sort_unstable();
                keys.dedup();
                Box::new(keys.into_iter().filter_map(|key| self.objects.get(key)))
            }
        };
        Box::new(found.filter(|object| object.labels.match_selector(selector)))
    }

    /// Objects of a kind, in one namespace or all.
    fn of_kind<'a>(
        &'a self,
        kind: &'a GroupKind,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        // Keys of a kind are in order of namespace and name, so a namespace is a range of them.
        let first = Parts {
            group: &kind.group,
            kind: &kind.kind,
            namespace: namespace.unwrap_or_default(),
            name: "",
        };
        self.objects
            .range(first..)
            .map(|(_, object)| object)
            .take_while(move |object| {
                object.key.is(&kind.group, &kind.kind) && is_in(&object.key, namespace)
            })
    }

    fn with_pair<'a>(
        &'a self,
        kind: &'a GroupKind,
        namespace: Option<&'a str>,
        label: &'a str,
        value: &'a str,
    ) -> impl Iterator<Item = &'a Key> + use<'a> {
        let first = Place::first(kind, label, value, namespace.unwrap_or_default());
        self.labels
            .range(first..)
            .take_while(move |it| {
                it.is_of(kind, label) && it.value == value && is_in(&it.key, namespace)
            })
            .map(|posting| &posting.key)
    }

    fn with_label<'a>(
        &'a self,
        kind: &'a GroupKind,
        namespace: Option<&'a str>,
        label: &'a str,
    ) -> impl Iterator<Item = &'a Key> {
        self.labels
            .range(Place::first(kind, label, "", "")..)
            .take_while(move |posting| posting.is_of(kind, label))
            .map(|posting| &posting.key)
            .filter(move |key| is_in(key, namespace))
    }

    /// Every object, sorted by kind, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// Number of objects of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (&GroupKind, usize)> {
        self.counts.iter().map(|(kind, count)| (kind, *count))
    }

    /// Whether the first list of the kind has arrived.
    #[must_use]
    pub fn is_synced(&self, kind: &GroupKind) -> bool {
        self.synced.contains(kind)
    }

    /// As [`Snapshot::is_synced`], of a kind that is given in parts.
    #[must_use]
    pub fn is_kind_synced(&self, group: &str, kind: &str) -> bool {
        self.synced.contains(&KindParts(group, kind))
    }

    /// What is different in `next`: objects, sorted by key, and kinds that are synced only there.
    /// Costs what differs, not what is there, where `next` came from `self` by commits.
    #[must_use]
    pub fn diff(&self, next: &Self) -> Diff {
        let objects = self
            .objects
            .diff(&next.objects)
            .filter_map(|item| difference(&item))
            .collect();
        let synced = next
            .synced
            .iter()
            .filter(|kind| !self.synced.contains(*kind))
            .cloned()
            .collect();
        Diff { objects, synced }
    }

    /// The same with another form of one object.
    #[must_use]
    pub fn with(&self, object: Arc<Object>) -> Self {
        let mut next = self.clone();
        next.apply(&[Change::Put(object)]);
        next
    }

    /// Applies changes and returns the keys of what is different now.
    pub(super) fn apply(&mut self, changes: &[Change]) -> Vec<Told> {
        changes
            .iter()
            .filter_map(|change| match change {
                Change::Put(object) => {
                    let before = self.objects.insert(object.key.clone(), object.clone());
                    self.follow(before.as_deref(), Some(object));
                    before
                        .is_none_or(|before| !before.same_content(object))
                        .then(|| Told::Object(object.key.clone()))
                }
                Change::Delete(key) => {
                    let before = self.objects.remove(key)?;
                    self.follow(Some(&before), None);
                    Some(Told::Object(key.clone()))
                }
                Change::Synced(kind) => self
                    .synced
                    .insert(kind.clone())
                    .is_none()
                    .then(|| Told::Synced(kind.clone())),
            })
            .collect()
    }

    /// Keeps counts and labels in step with an object.
    fn follow(&mut self, before: Option<&Object>, after: Option<&Object>) {
        let Some(key) = before.or(after).map(|object| &object.key) else {
            return;
        };
        if before.is_some() != after.is_some() {
            let Parts { group, kind, .. } = key.parts();
            match self.counts.get_mut(&KindParts(group, kind)) {
                Some(count) if after.is_some() => *count += 1,
                Some(count) => *count = count.saturating_sub(1),
                None => drop(self.counts.insert(key.group_kind(), 1)),
            }
        }
        let labels = |object: Option<&Object>| object.map(|it| it.labels.clone());
        let (before, after) = (labels(before), labels(after));
        if before == after {
            return;
        }
        let postings = |labels: Option<Labels>| -> Vec<Posting> {
            let labels = labels.unwrap_or_default();
            let posting = |(label, value): &(Text, Text)| Posting {
                label: label.clone(),
                value: value.clone(),
                key: key.clone(),
            };
            labels.iter().map(posting).collect()
        };
        for posting in postings(before) {
            self.labels.remove(&posting);
        }
        for posting in postings(after) {
            self.labels.insert(posting);
        }
    }
}

fn is_in(key: &Key, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| key.namespace == namespace)
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
    use crate::store::identity::counted;

    fn object(name: &str, body: &str) -> Arc<Object> {
        Arc::new(Object {
            key: Key::new("", "Service", "default", name),
            api_version: "v1".into(),
            labels: Labels::default(),
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

    /// Entries touched by a commit of one object and the comparison after it.
    fn touched(objects: usize) -> u64 {
        let all: Vec<Change> = (0..objects)
            .map(|n| Change::Put(object(&format!("o-{n:06}"), "{}")))
            .collect();
        let start = after(&Snapshot::default(), &all);
        let change = [Change::Put(object("o-000500", "{\"new\":1}"))];
        let (touches, diff) = counted::touches(|| start.diff(&after(&start, &change)));
        assert_eq!(diff.objects.len(), 1);
        touches
    }

    #[test]
    fn a_commit_costs_what_changed_not_what_is_there() {
        let (few, many) = (touched(1_000), touched(100_000));
        assert!(few > 0);
        // Twice: a hundred times as many objects are under two levels of nodes more.
        assert!(many <= 2 * few, "{few} of 1,000, {many} of 100,000");
    }

    #[test]
    fn labels_follow_objects() {
        let labelled = |name: &str, value: &str| {
            let mut object = Object::clone(&object(name, value));
            object.labels = [("app", value)].into_iter().collect();
            Change::Put(Arc::new(object))
        };
        let kind = GroupKind::new("", "Service");
        let start = after(
            &Snapshot::default(),
            &[labelled("a", "x"), labelled("b", "y")],
        );
        let next = after(
            &start,
            &[
                labelled("a", "y"),
                labelled("c", "x"),
                Change::Delete(Key::new("", "Service", "default", "b")),
            ],
        );
        let names = |snapshot: &Snapshot, value: &str| -> Vec<String> {
            let selector = LabelSelector {
                match_labels: [("app".to_owned(), value.to_owned())].into(),
                ..LabelSelector::default()
            };
            let found = snapshot.list(&kind, None, &selector);
            found.map(|object| object.key.name.to_string()).collect()
        };
        assert_eq!(
            (names(&start, "x"), names(&start, "y")),
            (vec!["a".into()], vec!["b".into()])
        );
        assert_eq!(
            (names(&next, "x"), names(&next, "y")),
            (vec!["c".into()], vec!["a".into()])
        );
        assert_eq!(next.labels.len(), 2);
    }
}
