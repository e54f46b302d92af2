//! The folding channel of CREATE, UPDATE and DELETE events between pipeline and synchronizer.
//!
//! The producer never waits, the newest is never lost, and what waits is bounded by the number of
//! live keys, because events of one key fold: create + update = create, create + delete = nothing,
//! update + delete = delete, delete + create = update. Events travel with the [`World`] that they
//! lead to, so a reader never sees events of an epoch without its world, nor a part of an epoch.

pub use super::fold::Event;

use super::World;
use super::fold::fold;
use crate::store::{Key, Mailbox};
use std::collections::BTreeMap;

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
    waiting: Mailbox<Batch>,
}

impl Events {
    /// Adds the events of an epoch. Never waits.
    pub fn push(&self, events: impl IntoIterator<Item = (Key, Event)>, world: World) {
        self.waiting.add(|batch| {
            fold(&mut batch.events, events);
            batch.world = world;
        });
    }

    /// All events since the last call and the newest world; waits until there is an epoch.
    pub async fn next(&self) -> Batch {
        self.waiting.next().await
    }

    /// As [`Events::next`], without waiting.
    pub fn take(&self) -> Option<Batch> {
        self.waiting.take()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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

    /// What a key's history may go on with: an object that is there is changed or deleted, one that
    /// is not is created.
    #[derive(Clone, Copy, Debug)]
    enum Op {
        Toggle(u8),
        Change(u8),
        Read,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..6u8).prop_map(Op::Toggle),
            4 => (0..6u8).prop_map(Op::Change),
            1 => Just(Op::Read),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// Whoever follows the batches knows what is there, and which of it changed, as if it had
        /// seen every single event; and no batch is larger than what was or is there.
        #[test]
        fn folded_events_say_the_same_as_all_of_them(
            ops in prop::collection::vec(op(), 1..80)
        ) {
            let channel = Events::default();
            let (mut live, mut known) = (BTreeSet::new(), BTreeSet::new());
            let mut changed = BTreeSet::new();
            let mut epoch = 0;
            for op in ops.into_iter().chain([Op::Read]) {
                let (number, event) = match op {
                    Op::Toggle(n) if live.remove(&n) => (n, Event::Delete),
                    Op::Toggle(n) => {
                        live.insert(n);
                        (n, Event::Create)
                    }
                    Op::Change(n) if live.contains(&n) => (n, Event::Update),
                    Op::Change(_) => continue,
                    Op::Read => {
                        let batch = channel.take().unwrap_or_default();
                        let bound: BTreeSet<u8> = known.union(&live).copied().collect();
                        prop_assert!(batch.events.len() <= bound.len());
                        for n in &bound {
                            let expected = match (known.contains(n), live.contains(n)) {
                                (false, true) => Some(Event::Create),
                                (true, false) => Some(Event::Delete),
                                (true, true) if changed.contains(n) => Some(Event::Update),
                                _ => None,
                            };
                            let found = batch.events.get(&key(&n.to_string())).copied();
                            prop_assert_eq!(found, expected, "{}", n);
                        }
                        if !batch.events.is_empty() {
                            prop_assert_eq!(batch.world.epoch, epoch);
                        }
                        known.clone_from(&live);
                        changed.clear();
                        continue;
                    }
                };
                epoch += 1;
                changed.insert(number);
                let world = World { epoch, ..World::default() };
                channel.push([(key(&number.to_string()), event)], world);
            }
        }
    }
}
