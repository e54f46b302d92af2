//! Who depends on which object that the host follows, in both directions.

use super::sorted::Sorted;
use crate::store::{Key, Text};
use chiton_ir::GroupKind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Something that was looked at while a reference was followed, whether it was there or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// An object.
    Object(Key),
    /// The grants of a namespace to a kind of object in another namespace.
    Grant(Arc<GrantId>),
}

/// What a `ReferenceGrant` may allow: references from a kind in a namespace into another namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantId {
    /// Kind of the objects that refer.
    pub from: GroupKind,
    /// Their namespace.
    pub from_namespace: Text,
    /// Namespace of what is referred to.
    pub to_namespace: Text,
}

/// What has to be assembled again when something that it followed changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follower {
    /// The listeners of a fleet (their certificates).
    Fleet(Arc<str>),
    /// A policy (Secrets with keys).
    Policy(Key),
    /// A route (its backends).
    Route(Key),
}

/// The index.
#[derive(Debug, Default)]
pub struct References {
    forward: BTreeMap<Follower, Sorted<Followed>>,
    reverse: BTreeMap<Followed, BTreeSet<Follower>>,
}

impl References {
    /// Replaces what a follower looked at.
    pub fn set(&mut self, follower: &Follower, seen: Sorted<Followed>) {
        let before = self.forward.remove(follower).unwrap_or_default();
        for gone in before.difference(&seen) {
            remove(&mut self.reverse, gone, follower);
        }
        for new in seen.difference(&before) {
            let followers = self.reverse.entry(new.clone()).or_default();
            followers.insert(follower.clone());
        }
        if !seen.is_empty() {
            self.forward.insert(follower.clone(), seen);
        }
    }

    /// What a follower looked at.
    pub fn followed(&self, follower: &Follower) -> impl Iterator<Item = &Followed> {
        self.forward.get(follower).into_iter().flatten()
    }

    /// Who looked at it.
    pub fn followers(&self, followed: &Followed) -> impl Iterator<Item = &Follower> {
        self.reverse.get(followed).into_iter().flatten()
    }
}

/// Removes a value from a set in a map, and the set if it is empty then.
pub fn remove<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = map.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Followed {
        Followed::Object(Key::new("", "Service", "default", name))
    }

    #[test]
    fn what_is_no_longer_followed_has_no_followers() {
        let mut references = References::default();
        let route = Follower::Route(Key::new("g", "HTTPRoute", "default", "r"));
        references.set(&route, BTreeSet::from([object("a"), object("b")]).into());
        references.set(&route, BTreeSet::from([object("b")]).into());
        assert_eq!(references.followers(&object("a")).count(), 0);
        assert_eq!(references.followers(&object("b")).count(), 1);
        references.set(&route, Sorted::default());
        assert_eq!(references.followers(&object("b")).count(), 0);
        assert!(references.forward.is_empty() && references.reverse.is_empty());
    }
}
