//! Identities of objects, and looking things up by them without making one.

use super::text::Text;
use chiton_ir::{GroupKind, ObjectRef};
use equivalent::{Comparable, Equivalent};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The parts of a [`Key`]. Groups, kinds and namespaces are there once however many have them.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// API group; empty for the core group.
    pub group: Text,
    /// Kind.
    pub kind: Text,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

/// The parts of an identity, borrowed. In order of group, kind, namespace and name, as keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parts<'a> {
    /// API group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

/// What names an object.
pub trait Named {
    /// Its identity.
    fn parts(&self) -> Parts<'_>;
}

/// A shared identity: what everything in the host is keyed by.
pub struct Key(Arc<Identity>);

impl Key {
    /// A key from its four parts.
    #[must_use]
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self(Arc::new(Identity {
            group: Text::shared(group),
            kind: Text::shared(kind),
            namespace: Text::shared(namespace),
            name: Text::own(name),
        }))
    }

    /// The identity as documents name it.
    #[must_use]
    pub fn to_ref(&self) -> ObjectRef {
        let Parts {
            group,
            kind,
            namespace,
            name,
        } = self.parts();
        ObjectRef::new(group, kind, namespace, name)
    }
}

impl Identity {
    /// The group and kind of the object.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.as_str(), self.kind.as_str())
    }

    /// Whether the object is of this group and kind.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.kind == kind && self.group == group
    }
}

impl Named for Identity {
    fn parts(&self) -> Parts<'_> {
        Parts {
            group: &self.group,
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

impl Named for Key {
    fn parts(&self) -> Parts<'_> {
        self.0.parts()
    }
}

impl Named for Parts<'_> {
    fn parts(&self) -> Parts<'_> {
        *self
    }
}

impl Named for ObjectRef {
    fn parts(&self) -> Parts<'_> {
        Parts {
            group: &self.group,
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

impl Equivalent<Key> for Parts<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        touched();
        *self == key.parts()
    }
}

impl Comparable<Key> for Parts<'_> {
    fn compare(&self, key: &Key) -> Ordering {
        touched();
        self.cmp(&key.parts())
    }
}

/// A group and a kind, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindParts<'a>(pub &'a str, pub &'a str);

impl Equivalent<GroupKind> for KindParts<'_> {
    fn equivalent(&self, kind: &GroupKind) -> bool {
        *self == KindParts(&kind.group, &kind.kind)
    }
}

impl Comparable<GroupKind> for KindParts<'_> {
    fn compare(&self, kind: &GroupKind) -> Ordering {
        self.cmp(&KindParts(&kind.group, &kind.kind))
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        touched();
        Self(self.0.clone())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        touched();
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        touched();
        if Arc::ptr_eq(&self.0, &other.0) {
            Ordering::Equal
        } else {
            self.0.cmp(&other.0)
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        touched();
        self.0.hash(state);
    }
}

impl PartialEq<Identity> for ObjectRef {
    fn eq(&self, other: &Identity) -> bool {
        self.parts() == other.parts()
    }
}

impl PartialEq<Key> for ObjectRef {
    fn eq(&self, other: &Key) -> bool {
        self.parts() == other.parts()
    }
}

impl From<ObjectRef> for Key {
    fn from(object: ObjectRef) -> Self {
        Self::from(&object)
    }
}

impl From<&ObjectRef> for Key {
    fn from(object: &ObjectRef) -> Self {
        Self::new(&object.group, &object.kind, &object.namespace, &object.name)
    }
}

impl Deref for Key {
    type Target = Identity;
    fn deref(&self) -> &Identity {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `Kind namespace/name`, as people read it in messages.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// In tests, notes that a key was compared, hashed or cloned: whatever looks at an object's entry
/// anywhere does one of these, so their number says how many entries were touched.
#[inline]
fn touched() {
    #[cfg(test)]
    counted::add();
}

#[cfg(test)]
pub(crate) mod counted {
    //! How often keys were touched on this thread.

    use std::cell::Cell;

    thread_local! {
        static TOUCHES: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        TOUCHES.with(|touches| touches.set(touches.get() + 1));
    }

    /// How often keys are touched by `work`, with what it returns.
    pub(crate) fn touches<T>(work: impl FnOnce() -> T) -> (u64, T) {
        let before = TOUCHES.with(Cell::get);
        let result = work();
        (TOUCHES.with(Cell::get) - before, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_kind_and_namespace_share_their_names() {
        let a = Key::new("g", "HTTPRoute", "default", "a");
        let b = Key::from(&ObjectRef::new("g", "HTTPRoute", "default", "b"));
        assert!(a.group.is_same_copy(&b.group));
        assert!(a.kind.is_same_copy(&b.kind));
        assert!(a.namespace.is_same_copy(&b.namespace));
    }

    #[test]
    fn borrowed_parts_are_in_the_order_of_keys() {
        let keys = [
            Key::new("", "Service", "b", "z"),
            Key::new("g", "A", "a", "x"),
            Key::new("g", "A", "a-b", "x"),
            Key::new("g", "A", "b", "a"),
        ];
        for a in &keys {
            for b in &keys {
                assert_eq!(a.cmp(b), a.parts().cmp(&b.parts()));
                assert_eq!(a.parts().compare(b), a.to_ref().cmp(&b.to_ref()));
            }
        }
    }
}
