//! Commits: none is lost, none is seen in part, and what the feed tells is in the next snapshot.

use crate::mailbox::Mailbox;
use crate::published::Published;
use crate::{MANY, SOME};
use shuttle::{future, thread};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const WRITERS: usize = 3;
const COMMITS: usize = 2;

/// What a commit changes at once: both numbers of its writer.
type Snapshot = BTreeMap<usize, (usize, usize)>;

#[derive(Default)]
struct Store {
    current: Published<Snapshot>,
    feed: Mailbox<BTreeSet<(usize, usize)>>,
}

impl Store {
    /// The order of steps is that of `store::Store::commit`.
    fn commit(&self, writer: usize) {
        let number = self.current.update(|snapshot| {
            let mut next = snapshot.clone();
            let both = next.entry(writer).or_default();
            both.0 += 1;
            both.1 += 1;
            let number = both.0;
            (next, number)
        });
        self.feed.add(|told| {
            told.insert((writer, number));
        });
    }
}

fn whole(snapshot: &Snapshot) -> bool {
    snapshot.values().all(|(a, b)| a == b)
}

fn commits() {
    let store = Arc::new(Store::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            thread::spawn(move || {
                for number in 1..=COMMITS {
                    store.commit(writer);
                    assert!(
                        store.current.load()[&writer].0 == number,
                        "one's own is there"
                    );
                }
            })
        })
        .collect();
    let reader = {
        let store = store.clone();
        thread::spawn(move || {
            let mut seen = Snapshot::new();
            for _ in 0..3 {
                let now = store.current.load();
                assert!(whole(&now), "half a commit: {now:?}");
                for (writer, before) in &seen {
                    assert!(now[writer] >= *before, "it went back");
                }
                seen = (*now).clone();
            }
        })
    };
    // The pipeline: waits for the feed, then loads.
    let mut told = BTreeSet::new();
    while told.len() < WRITERS * COMMITS {
        let new = future::block_on(store.feed.next());
        let snapshot = store.current.load();
        for (writer, number) in &new {
            assert!(snapshot[writer].0 >= *number, "told before it is there");
        }
        told.extend(new);
    }
    for thread in writers.into_iter().chain([reader]) {
        thread.join().unwrap();
    }
    assert!(
        store
            .current
            .load()
            .values()
            .all(|both| *both == (COMMITS, COMMITS))
    );
    assert_eq!(store.feed.take(), None);
}

#[test]
fn commits_are_whole_and_never_lost() {
    shuttle::check_random(commits, SOME);
    shuttle::check_pct(commits, SOME, 3);
}

#[test]
#[ignore = "soak"]
fn commits_are_whole_and_never_lost_in_many_schedules() {
    shuttle::check_random(commits, MANY);
    shuttle::check_pct(commits, MANY, 4);
}
