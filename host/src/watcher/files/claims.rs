//! Which object stands for each identity.
//!
//! Every object of every file claims its identity; the first path in order wins, then the first in
//! the file. Only the identities that a changed file claims or claimed are looked at.

use super::names;
use super::object::implicit_namespace;
use super::problem::Problem;
use crate::store::{Change, Key, Object};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// One object of a file.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The object.
    pub object: Arc<Object>,
    /// It, or its file, is gone, and its grace is not over. It still stands, but is nobody's
    /// duplicate: somebody may be moving it.
    pub leaving: bool,
}

/// All claims and who won.
#[derive(Debug, Default)]
pub struct Claims {
    /// Sorted by path and place in the file.
    by_key: BTreeMap<Key, Vec<(Arc<Path>, Claim)>>,
    by_path: BTreeMap<Arc<Path>, Vec<Key>>,
    served: BTreeMap<Key, Arc<Object>>,
    /// Number of objects in each namespace.
    used: BTreeMap<String, usize>,
    duplicates: BTreeMap<Key, Vec<Problem>>,
    touched: BTreeSet<Key>,
}

impl Claims {
    /// Replaces all claims of a file.
    pub fn set(&mut self, path: &Path, claims: Vec<Claim>) {
        for key in self.by_path.remove(path).unwrap_or_default() {
            if let Some(places) = self.by_key.get_mut(&key) {
                places.retain(|(of, _)| **of != *path);
                if places.is_empty() {
                    self.by_key.remove(&key);
                }
            }
            self.touched.insert(key);
        }
        if claims.is_empty() {
            return;
        }
        let path: Arc<Path> = path.into();
        let keys = claims.iter().map(|claim| claim.object.key.clone());
        self.by_path.insert(path.clone(), keys.collect());
        for claim in claims {
            let key = claim.object.key.clone();
            self.touched.insert(key.clone());
            let place = (path.clone(), claim);
            match self.by_key.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(vec![place])),
                Entry::Occupied(mut entry) => {
                    let places = entry.get_mut();
                    let after = places.partition_point(|(of, _)| *of <= path);
                    places.insert(after, place);
                }
            }
        }
    }

    /// Settles who stands for the identities that were touched, and returns what changed.
    pub fn settle(&mut self) -> Vec<Change> {
        let touched = std::mem::take(&mut self.touched);
        let (mut namespaces, others): (BTreeSet<Key>, BTreeSet<Key>) =
            touched.into_iter().partition(is_namespace);
        let mut changes = Vec::new();
        for key in others {
            let winner = self.winner(&key);
            if self.serve(&key, winner, &mut changes) && !key.namespace.is_empty() {
                namespaces.insert(Key::new("", "Namespace", "", &key.namespace));
            }
            self.note_duplicates(&key);
        }
        for key in namespaces {
            let winner = self.winner(&key).or_else(|| self.implicit(&key));
            self.serve(&key, winner, &mut changes);
            self.note_duplicates(&key);
        }
        changes
    }

    /// Every object that stands, sorted by key.
    pub fn served(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.served.values()
    }

    /// A problem for each object that stands behind another one.
    pub fn duplicates(&self) -> impl Iterator<Item = &Problem> {
        self.duplicates.values().flatten()
    }

    fn winner(&self, key: &Key) -> Option<Arc<Object>> {
        let (_, claim) = self.by_key.get(key)?.first()?;
        Some(claim.object.clone())
    }

    fn implicit(&self, key: &Key) -> Option<Arc<Object>> {
        (self.used.contains_key(key.name.as_str()) && names::label_fault(&key.name).is_none())
            .then(|| implicit_namespace(&key.name))
    }

    /// Puts the object in place. Returns whether it came or went.
    fn serve(&mut self, key: &Key, object: Option<Arc<Object>>, changes: &mut Vec<Change>) -> bool {
        let before = self.served.get(key);
        let came_or_went = before.is_some() != object.is_some();
        match object {
            Some(object) if before.is_some_and(|before| **before == *object) => {}
            Some(object) => {
                changes.push(Change::Put(object.clone()));
                self.served.insert(key.clone(), object);
                if came_or_went {
                    self.use_namespace(&key.namespace);
                }
            }
            None if came_or_went => {
                changes.push(Change::Delete(key.clone()));
                self.served.remove(key);
                self.release_namespace(&key.namespace);
            }
            None => {}
        }
        came_or_went
    }

    fn use_namespace(&mut self, namespace: &str) {
        if !namespace.is_empty() {
            *self.used.entry(namespace.to_owned()).or_default() += 1;
        }
    }

    fn release_namespace(&mut self, namespace: &str) {
        if let Some(count) = self.used.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.used.remove(namespace);
            }
        }
    }

    fn note_duplicates(&mut self, key: &Key) {
        let mut standing = self
            .by_key
            .get(key)
            .into_iter()
            .flatten()
            .filter(|(_, claim)| !claim.leaving);
        let first = standing.next().map(|(_, claim)| claim.object.clone());
        let problems: Vec<Problem> = standing
            .map(|(path, claim)| duplicate(path, &claim.object, first.as_deref()))
            .collect();
        if problems.is_empty() {
            self.duplicates.remove(key);
        } else {
            self.duplicates.insert(key.clone(), problems);
        }
    }
}

fn is_namespace(key: &Key) -> bool {
    key.is("", "Namespace")
}

fn duplicate(path: &Path, object: &Object, first: Option<&Object>) -> Problem {
    let place = first
        .and_then(|first| first.origin.as_ref())
        .map_or_else(String::new, |origin| {
            format!(" in {} line {}", origin.path.display(), origin.line)
        });
    let line = object.origin.as_ref().map_or(1, |origin| origin.line);
    Problem::new(
        path,
        format!("is there already{place}, and that one is used"),
        "remove one of the two, or give it another name",
    )
    .at(line)
    .of(&object.key)
}
