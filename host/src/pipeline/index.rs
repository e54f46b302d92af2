//! The reverse index of reads: from a change to the objects whose latest run read what changed.
//!
//! Nothing here scans all objects. Gets, outputs and policies are found by exact key; lists by kind,
//! namespace and what their selector can be looked up by: a label with a value, or a label that
//! must be there. Selectors with nothing of the kind are in a *residual* bucket of their kind and
//! namespace, which each change checks whole: how many is counted.

use super::reads::{Read, ReadSet, reaches};
use crate::store::{Difference, Handle, Key, Object, Text};
use chiton_ir::GroupKind;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::policy::Policy;
use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

type Readers = HashSet<Key>;
/// A kind, and a namespace or all.
type ListScope = (GroupKind, Option<Text>);
/// Selectors that are found together.
type Selectors = HashSet<Arc<LabelSelector>>;

/// Who read what.
#[derive(Debug, Default)]
pub(super) struct Index {
    sets: HashMap<Key, ReadSet>,
    objects: HashMap<Key, Readers>,
    outputs: HashMap<Key, Readers>,
    unsynced: HashMap<GroupKind, Readers>,
    policies: HashMap<Key, HashMap<Option<String>, Readers>>,
    lists: HashMap<ListScope, Lists>,
}

/// Lists of one kind in one namespace or all.
#[derive(Debug, Default)]
struct Lists {
    readers: HashMap<Arc<LabelSelector>, Readers>,
    /// By a label and a value that it must have.
    pairs: HashMap<Text, HashMap<Text, Selectors>>,
    /// By a label that must be there.
    labels: HashMap<Text, Selectors>,
    /// All others.
    residual: Selectors,
}

/// Readers of something, and what finding them cost.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The readers.
    pub readers: BTreeSet<Key>,
    /// Selectors of residual buckets that were checked.
    pub residual: usize,
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
                    if let Some(lists) = self.lists.get_mut(&scope) {
                        lists.remove(selector, reader);
                        if lists.readers.is_empty() {
                            self.lists.remove(&scope);
                        }
                    }
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
                .readers(selector),
        };
        readers.insert(reader.clone());
    }

    /// Readers of an object that came, went or changed, by name or in a list.
    pub fn readers_of_object(&self, change: &Difference) -> Found {
        let mut found = Found {
            readers: of(&self.objects, &change.key).cloned().collect(),
            residual: 0,
        };
        let kind = change.key.group_kind();
        let namespace = Some(change.key.namespace.clone());
        for scope in [(kind.clone(), namespace), (kind, None)] {
            let Some(lists) = self.lists.get(&scope) else {
                continue;
            };
            for object in [&change.before, &change.after].into_iter().flatten() {
                lists.selecting(object, &mut found);
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

impl Lists {
    /// The readers of the list with a selector.
    fn readers(&mut self, selector: &LabelSelector) -> &mut Readers {
        let selector = Arc::new(selector.clone());
        if !self.readers.contains_key(&selector) {
            self.add(&selector);
        }
        self.readers.entry(selector).or_default()
    }

    /// Puts a selector where it is to be found.
    fn add(&mut self, selector: &Arc<LabelSelector>) {
        match Handle::of(selector) {
            None => drop(self.residual.insert(selector.clone())),
            Some(Handle::Label(label)) => {
                let selectors = self.labels.entry(Text::shared(label)).or_default();
                selectors.insert(selector.clone());
            }
            Some(Handle::Pairs(label, values)) => {
                let by_value = self.pairs.entry(Text::shared(label)).or_default();
                for value in values {
                    let selectors = by_value.entry(Text::shared(value)).or_default();
                    selectors.insert(selector.clone());
                }
            }
        }
    }

    fn remove(&mut self, selector: &LabelSelector, reader: &Key) {
        drop_reader(&mut self.readers, selector, reader);
        if self.readers.contains_key(selector) {
            return;
        }
        match Handle::of(selector) {
            None => drop(self.residual.remove(selector)),
            Some(Handle::Label(label)) => drop_selector(&mut self.labels, label, selector),
            Some(Handle::Pairs(label, values)) => {
                let Some(by_value) = self.pairs.get_mut(label) else {
                    return;
                };
                for value in values {
                    drop_selector(by_value, value, selector);
                }
                if by_value.is_empty() {
                    self.pairs.remove(label);
                }
            }
        }
    }

    /// Adds the readers of the lists in which an object is.
    fn selecting(&self, object: &Object, found: &mut Found) {
        let by_label = object.labels.iter().flat_map(|(label, value)| {
            let pair = self.pairs.get(label).and_then(|values| values.get(value));
            pair.into_iter().chain(self.labels.get(label)).flatten()
        });
        found.residual += self.residual.len();
        for selector in by_label.chain(&self.residual) {
            if object.labels.match_selector(selector) {
                found.readers.extend(of(&self.readers, selector).cloned());
            }
        }
    }
}

fn of<'a, K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(
    map: &'a HashMap<K, Readers>,
    key: &Q,
) -> impl Iterator<Item = &'a Key> {
    map.get(key).into_iter().flatten()
}

fn drop_reader<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(
    map: &mut HashMap<K, Readers>,
    key: &Q,
    reader: &Key,
) {
    if let Some(readers) = map.get_mut(key) {
        readers.remove(reader);
        if readers.is_empty() {
            map.remove(key);
        }
    }
}

fn drop_selector(map: &mut HashMap<Text, Selectors>, name: &str, selector: &LabelSelector) {
    if let Some(selectors) = map.get_mut(name) {
        selectors.remove(selector);
        if selectors.is_empty() {
            map.remove(name);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::store::Labels;
    use chiton_ir::gateway::{LabelOperator, LabelRequirement};

    const APP: &str = "app";

    fn config_map(name: &str, value: Option<&str>) -> Arc<Object> {
        Arc::new(Object {
            key: Key::new("", "ConfigMap", "default", name),
            api_version: "v1".into(),
            labels: value
                .map(|value| (APP, value))
                .into_iter()
                .collect::<Labels>(),
            generation: 0,
            created: None,
            body: value.unwrap_or_default().as_bytes().into(),
            problem: None,
            origin: None,
        })
    }

    fn selector(operator: LabelOperator, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: vec![LabelRequirement {
                key: APP.to_owned(),
                operator,
                values: values.iter().map(|value| (*value).to_owned()).collect(),
            }],
            ..LabelSelector::default()
        }
    }

    fn equal(value: &str) -> LabelSelector {
        LabelSelector {
            match_labels: [(APP.to_owned(), value.to_owned())].into(),
            ..LabelSelector::default()
        }
    }

    fn reader(number: usize) -> Key {
        Key::new("g", "Gateway", "default", &number.to_string())
    }

    fn reads(index: &mut Index, reader: &Key, selector: LabelSelector, namespace: Option<&str>) {
        let read = Read::List {
            kind: GroupKind::new("", "ConfigMap"),
            namespace: namespace.map(Text::shared),
            selector,
        };
        let set = ReadSet {
            reads: [read].into(),
            wake: None,
        };
        index.set(reader, set);
    }

    fn change(before: Option<&str>, after: Option<&str>) -> Difference {
        Difference {
            key: Key::new("", "ConfigMap", "default", "c"),
            before: Some(config_map("c", before)),
            after: Some(config_map("c", after)),
        }
    }

    #[test]
    fn each_kind_of_selector_is_found_where_it_belongs() {
        use LabelOperator::{DoesNotExist, Exists, In, NotIn};
        let mut index = Index::default();
        let all = [
            equal("a"),
            selector(In, &["a", "b"]),
            selector(Exists, &[]),
            selector(NotIn, &["a"]),
            selector(DoesNotExist, &[]),
            LabelSelector::default(),
        ];
        for (number, selector) in all.into_iter().enumerate() {
            reads(
                &mut index,
                &reader(number),
                selector,
                (number % 2 == 0).then_some("default"),
            );
        }
        let found = |before, after| {
            let found = index.readers_of_object(&change(before, after));
            let readers: Vec<String> = found.readers.iter().map(|it| it.name.to_string()).collect();
            (readers.join(""), found.residual)
        };
        // The three others are checked against the old form and the new one.
        assert_eq!(found(Some("a"), Some("a")), ("0125".to_owned(), 6));
        assert_eq!(found(Some("b"), Some("b")), ("1235".to_owned(), 6));
        assert_eq!(found(Some("c"), Some("c")), ("235".to_owned(), 6));
        assert_eq!(found(Some("b"), None), ("12345".to_owned(), 6));
        assert_eq!(found(None, None), ("345".to_owned(), 6));
    }

    #[test]
    fn finding_readers_does_not_look_at_other_lists() {
        let mut index = Index::default();
        for number in 0..10_000 {
            reads(
                &mut index,
                &reader(number),
                equal(&format!("v{number}")),
                None,
            );
        }
        let (touches, found) = crate::store::identity::counted::touches(|| {
            index.readers_of_object(&change(Some("v7"), Some("v8")))
        });
        assert_eq!(found.readers, [reader(7), reader(8)].into());
        assert_eq!(found.residual, 0);
        assert!(touches < 40, "{touches} keys were touched");
        for number in 0..10_000 {
            index.remove(&reader(number));
        }
        assert!(index.lists.is_empty());
    }
}
