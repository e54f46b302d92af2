//! What changed in the store, folded per object, for one reader.

use super::mailbox::Mailbox;
use super::snapshot::Told;
use std::collections::BTreeMap;
use std::time::Instant;

/// Changes, each with the moment of the oldest that has not been read.
pub type Changes = BTreeMap<Told, Instant>;

/// The changes since the last read. Bounded by the number of objects: a key is held once.
#[derive(Debug, Default)]
pub struct ChangeFeed {
    changes: Mailbox<Changes>,
}

impl ChangeFeed {
    pub(super) fn push(&self, told: Vec<Told>, at: Instant) {
        if told.is_empty() {
            return;
        }
        self.changes.add(|changes| {
            for told in told {
                changes.entry(told).or_insert(at);
            }
        });
    }

    /// All that changed since the last call; waits until there is something. A snapshot loaded
    /// after this call holds every change that it returned.
    pub async fn next(&self) -> Changes {
        self.changes.next().await
    }

    /// All that changed since the last call, perhaps nothing.
    pub fn take(&self) -> Changes {
        self.changes.take().unwrap_or_default()
    }

    /// Holds up whoever tells of a change.
    #[cfg(test)]
    pub(super) fn hold(&self, release: &std::sync::Barrier) {
        self.changes.add(|_| {
            release.wait();
            release.wait();
        });
    }
}
