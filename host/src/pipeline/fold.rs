//! The algebra of events: which one event stands for several of one object.
//!
//! `tests/model` checks this file with the mailbox under many interleavings.

use std::collections::BTreeMap;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// It is new.
    Create,
    /// It, its output, or something that its output is assembled from changed.
    Update,
    /// It is gone.
    Delete,
}

impl Event {
    /// The one event that stands for `self` and then `next`; none if they cancel out.
    #[must_use]
    pub fn then(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Create, Self::Delete) => None,
            (Self::Create, _) => Some(Self::Create),
            (Self::Update | Self::Delete, Self::Delete) => Some(Self::Delete),
            (Self::Update | Self::Delete, _) => Some(Self::Update),
        }
    }
}

/// Adds events that came after those that are there.
pub fn fold<K: Ord>(events: &mut BTreeMap<K, Event>, more: impl IntoIterator<Item = (K, Event)>) {
    for (key, event) in more {
        let folded = match events.get(&key) {
            Some(before) => before.then(event),
            None => Some(event),
        };
        match folded {
            Some(event) => events.insert(key, event),
            None => events.remove(&key),
        };
    }
}
