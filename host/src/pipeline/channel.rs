//! The folding channel of CREATE, UPDATE and DELETE events between pipeline and synchronizer.
//!
//! The producer never waits, the newest is never lost, and what waits is bounded by the number of
//! live keys, because events of one key fold: create + update = create, create + delete = nothing,
//! update + delete = delete, delete + create = update. Events travel with the [`World`] that they
//! lead to, so a reader never sees events of an epoch without its world, nor a part of an epoch.

use super::World;
use crate::store::Key;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

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
    fn then(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Create, Self::Delete) => None,
            (Self::Create, _) => Some(Self::Create),
            (Self::Update | Self::Delete, Self::Delete) => Some(Self::Delete),
            (Self::Update | Self::Delete, _) => Some(Self::Update),
        }
    }
}

/// Events and the world after them.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Folded events by key: outputs of gateways, policies, routes and APIs, and changed inputs
    /// that the host follows itself (`Service`, `EndpointSlice`, `Secret`, `Backend`,
    /// `ReferenceGrant`, `Namespace`).
    pub events: BTreeMap<Key, Event>,
    /// The world after them.
    pub world: World,
}

/// The channel: one producer, one reader.
#[derive(Debug, Default)]
pub struct Events {
    waiting: Mutex<Option<Batch>>,
    wake: Notify,
}

impl Events {
    /// Adds the events of an epoch. Never waits.
    pub fn push(&self, events: impl IntoIterator<Item = (Key, Event)>, world: World) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = waiting.get_or_insert_default();
        for (key, event) in events {
            let folded = match batch.events.get(&key) {
                Some(before) => before.then(event),
                None => Some(event),
            };
            match folded {
                Some(event) => batch.events.insert(key, event),
                None => batch.events.remove(&key),
            };
        }
        batch.world = world;
        drop(waiting);
        self.wake.notify_one();
    }

    /// All events since the last call and the newest world; waits until there is an epoch.
    pub async fn next(&self) -> Batch {
        loop {
            if let Some(batch) = self.take() {
                return batch;
            }
            self.wake.notified().await;
        }
    }

    /// As [`Events::next`], without waiting.
    pub fn take(&self) -> Option<Batch> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("chiton.dev", "API", "default", name)
    }

    fn folded(events: &[Event]) -> Option<Event> {
        let channel = Events::default();
        for event in events {
            channel.push([(key("a"), *event)], World::default());
        }
        channel
            .take()
            .and_then(|batch| batch.events.get(&key("a")).copied())
    }

    #[test]
    fn events_of_one_key_fold() {
        use Event::{Create, Delete, Update};
        assert_eq!(folded(&[Create, Update]), Some(Create));
        assert_eq!(folded(&[Create, Delete]), None);
        assert_eq!(folded(&[Update, Delete]), Some(Delete));
        assert_eq!(folded(&[Delete, Create]), Some(Update));
        assert_eq!(folded(&[Update, Update]), Some(Update));
        assert_eq!(folded(&[Create, Delete, Create]), Some(Create));
    }

    #[test]
    fn a_reader_that_is_slow_gets_the_newest_world() {
        let channel = Events::default();
        for epoch in 1..=3 {
            let world = World {
                epoch,
                ..World::default()
            };
            channel.push([(key(&epoch.to_string()), Event::Create)], world);
        }
        let batch = channel.take().expect("a batch waits");
        assert_eq!(batch.world.epoch, 3);
        assert_eq!(batch.events.len(), 3);
        assert!(channel.take().is_none());
    }
}
