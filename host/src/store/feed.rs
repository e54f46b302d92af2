//! What changed in the store, folded per object, for one reader.

use super::snapshot::Told;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The changes since the last read. Bounded by the number of objects: a key is held once.
#[derive(Debug, Default)]
pub struct ChangeFeed {
    pending: Mutex<BTreeSet<Told>>,
    wake: Notify,
}

impl ChangeFeed {
    pub(super) fn push(&self, changes: Vec<Told>) {
        if changes.is_empty() {
            return;
        }
        self.lock().extend(changes);
        self.wake.notify_one();
    }

    /// All that changed since the last call; waits until there is something. A snapshot loaded
    /// after this call holds every change that it returned.
    pub async fn next(&self) -> BTreeSet<Told> {
        loop {
            let changes = self.take();
            if !changes.is_empty() {
                return changes;
            }
            self.wake.notified().await;
        }
    }

    /// All that changed since the last call, perhaps nothing.
    pub fn take(&self) -> BTreeSet<Told> {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<Told>> {
        // A panic cannot leave a set half changed.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
