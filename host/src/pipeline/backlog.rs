//! Objects that wait to be reconciled, and since when.
//!
//! An epoch takes all that waits, but gives each layer a bounded time and number of objects. What
//! is left goes on in the next epoch, oldest first, so that under a storm of changes batches grow
//! with the backlog and nobody is overtaken for ever.

use super::retry::Cause;
use crate::store::Key;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// Objects with the reasons why they are to be run.
pub(super) type Waiting = BTreeMap<Key, Cause>;

/// All that waits.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Since when.
    since: HashMap<Key, Instant>,
    /// Left over by the last epoch.
    pub carried: Waiting,
    /// Of modules, by name, all of whose threads are busy with runs that outlasted their epoch:
    /// until one of them ends there is no use in trying.
    pub held: BTreeMap<String, Waiting>,
}

impl Backlog {
    /// Something is to be done about an object. If it waits already it keeps its place.
    pub fn note(&mut self, key: &Key, at: Instant) {
        self.since.entry(key.clone()).or_insert(at);
    }

    /// Objects in the order in which they have waited.
    pub fn oldest_first(&self, waiting: Waiting) -> Vec<(Key, Cause)> {
        let mut sorted: Vec<_> = waiting.into_iter().collect();
        // Stable: those of one moment stay in the order of their keys.
        sorted.sort_by_key(|(key, _)| self.since.get(key).copied());
        sorted
    }

    /// Takes what is held for modules that `is_free` again.
    pub fn release(&mut self, is_free: impl Fn(&str) -> bool) -> Waiting {
        self.held
            .extract_if(.., |module, _| is_free(module))
            .flat_map(|(_, waiting)| waiting)
            .collect()
    }

    /// Forgets all that does not wait any more and tells since when it has waited. What still runs
    /// has not been answered either.
    pub fn settle(&mut self, is_running: impl Fn(&Key) -> bool, mut tell: impl FnMut(Instant)) {
        let (carried, held) = (&self.carried, &self.held);
        self.since.retain(|key, since| {
            let waits = is_running(key)
                || carried.contains_key(key)
                || held.values().any(|waiting| waiting.contains_key(key));
            if !waits {
                tell(*since);
            }
            waits
        });
    }
}
