//! Strings of which the process holds one copy: groups, kinds, namespaces, labels.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// An immutable string that is cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Arc<str>);

/// Most comparisons are of two shared strings, and most of these are one copy.
impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.is_same_copy(other) {
            Ordering::Equal
        } else {
            self.0.cmp(&other.0)
        }
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Entries of the table below which it is not worth looking for unused ones.
const SMALL: usize = 1024;

/// All shared strings that are in use, and some that were.
struct Table {
    strings: HashSet<Arc<str>>,
    /// Size at which unused strings are dropped.
    full: usize,
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(|| {
    RwLock::new(Table {
        strings: HashSet::new(),
        full: SMALL,
    })
});

impl Text {
    /// The one copy of a string that many objects have.
    #[must_use]
    pub fn shared(text: &str) -> Self {
        // A panic cannot leave a set half changed.
        let known = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.strings.get(text) {
            return Self(known.clone());
        }
        drop(known);
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        table.add(text)
    }

    /// A string that hardly any other object has.
    #[must_use]
    pub fn own(text: &str) -> Self {
        Self(text.into())
    }

    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are one copy.
    #[must_use]
    pub fn is_same_copy(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Table {
    fn add(&mut self, text: &str) -> Text {
        if let Some(known) = self.strings.get(text) {
            return Text(known.clone());
        }
        if self.strings.len() >= self.full {
            self.strings.retain(|text| Arc::strong_count(text) > 1);
            self.full = SMALL.max(2 * self.strings.len());
        }
        let new: Arc<str> = text.into();
        self.strings.insert(new.clone());
        Text(new)
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &**self == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &**self == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<Text> for String {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::shared(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::shared(&text)
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> Self {
        text.as_str().to_owned()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        Self::from(&text)
    }
}

impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_one_copy_for_as_long_as_somebody_has_them() {
        let first = Text::shared("a namespace of this test");
        assert!(first.is_same_copy(&Text::shared("a namespace of this test")));
        assert!(!first.is_same_copy(&Text::own("a namespace of this test")));
        let kept = Arc::downgrade(&first.0);
        drop(first);
        let mut many = Vec::new();
        for number in 0..=(4 * SMALL) {
            many.push(Text::shared(&format!("string {number} of this test")));
        }
        // Whoever fills the table sweeps it, so that it cannot grow without end.
        for _ in 0..100 * SMALL {
            if kept.upgrade().is_none() {
                return;
            }
            many.push(Text::shared(&format!("more {}", many.len())));
        }
        unreachable!("a string that nobody has is still there");
    }
}
