//! Sets that are made once, kept for long, and mostly small.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// A set whose values are sorted and in one piece of memory, which clones share. (A `BTreeSet` takes
/// the room of eleven values for one: with one set for each route and its neighbours, that was a
/// quarter of the host's memory.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted<T>(Option<Arc<[T]>>);

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Ord> Sorted<T> {
    /// Values of this set that are not in the other.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|value| !other.has(value))
    }

    /// Whether the value is in the set.
    #[must_use]
    pub fn has(&self, value: &T) -> bool {
        self.binary_search(value).is_ok()
    }
}

impl<T> Deref for Sorted<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> From<BTreeSet<T>> for Sorted<T> {
    fn from(values: BTreeSet<T>) -> Self {
        Self((!values.is_empty()).then(|| values.into_iter().collect()))
    }
}

impl<'a, T> IntoIterator for &'a Sorted<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set() {
        let set = |values: &[u8]| Sorted::from(values.iter().copied().collect::<BTreeSet<_>>());
        let (a, b) = (set(&[3, 1, 1]), set(&[2, 3]));
        assert_eq!(*a, [1, 3]);
        assert_eq!(a.difference(&b).collect::<Vec<_>>(), [&1]);
        assert_eq!(b.difference(&Sorted::default()).count(), 2);
        assert!(b.has(&2) && !a.has(&2));
        assert_eq!(set(&[]), Sorted::default());
    }
}
