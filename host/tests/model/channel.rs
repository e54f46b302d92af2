//! The channel of events: who writes never waits, who reads misses nothing.

use crate::fold::{Event, fold};
use crate::mailbox::Mailbox;
use crate::{MANY, SOME};
use shuttle::{future, thread};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As `pipeline::channel::Batch`; the world is a set of live keys with a version each.
#[derive(Default)]
struct Batch {
    events: BTreeMap<u8, Event>,
    world: World,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct World {
    epoch: usize,
    live: BTreeMap<u8, usize>,
}

/// What one producer does, epoch by epoch: all ways in which events of one key fold, and two keys
/// whose versions always go together.
const EPOCHS: &[&[(u8, Event)]] = &[
    &[(1, Event::Create), (2, Event::Create), (3, Event::Create)],
    &[(1, Event::Update), (2, Event::Update)],
    &[(1, Event::Delete), (3, Event::Delete)],
    &[(1, Event::Create), (2, Event::Update), (3, Event::Create)],
    &[(3, Event::Delete)],
];

fn channel() {
    let events = Arc::new(Mailbox::<Batch>::default());
    let producer = {
        let events = events.clone();
        thread::spawn(move || {
            let mut world = World::default();
            for changes in EPOCHS {
                world.epoch += 1;
                for (key, event) in *changes {
                    match event {
                        Event::Delete => drop(world.live.remove(key)),
                        _ => drop(world.live.insert(*key, world.epoch)),
                    }
                }
                let world = world.clone();
                events.add(|batch| {
                    fold(&mut batch.events, changes.iter().copied());
                    batch.world = world;
                });
            }
        })
    };
    let mut known = World::default();
    while known.epoch < EPOCHS.len() {
        let batch = future::block_on(events.next());
        assert!(
            batch.world.epoch > known.epoch,
            "an epoch came twice or late"
        );
        for (key, event) in &batch.events {
            let there = (
                known.live.contains_key(key),
                batch.world.live.contains_key(key),
            );
            let expected = match event {
                Event::Create => (false, true),
                Event::Update => (true, true),
                Event::Delete => (true, false),
            };
            assert_eq!(there, expected, "{key} {event:?}");
        }
        let keys: BTreeSet<&u8> = known.live.keys().chain(batch.world.live.keys()).collect();
        for key in keys {
            let changed = known.live.get(key) != batch.world.live.get(key);
            assert!(
                !changed || batch.events.contains_key(key),
                "{key} was missed"
            );
        }
        known = batch.world;
    }
    producer.join().unwrap();
    assert!(events.take().is_none());
}

#[test]
fn nothing_is_missed() {
    shuttle::check_random(channel, SOME);
    shuttle::check_dfs(channel, Some(SOME));
}

#[test]
#[ignore = "soak"]
fn nothing_is_missed_in_any_schedule() {
    shuttle::check_dfs(channel, None);
    shuttle::check_random(channel, MANY);
}
