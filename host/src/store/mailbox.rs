//! A place for what one reader has not read yet, folded into one value.
//!
//! Writers never wait for the reader, nothing that was added is lost, and the reader always gets
//! all of it. As [`super::published`] this file is checked under many interleavings by
//! `tests/model`.

use super::primitives::Mutex;
use std::sync::PoisonError;
use tokio::sync::Notify;

/// The place. Several may write; one reads.
#[derive(Debug)]
pub struct Mailbox<T> {
    waiting: Mutex<Option<T>>,
    wake: Notify,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(None),
            wake: Notify::new(),
        }
    }
}

impl<T: Default> Mailbox<T> {
    /// Folds something into what waits. Returns at once, whether there is a reader or not.
    pub fn add(&self, fold: impl FnOnce(&mut T)) {
        // A panic while folding takes the process down or leaves a value that is whole.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        fold(waiting.get_or_insert_default());
        drop(waiting);
        self.wake.notify_one();
    }

    /// All that waits, if anything does.
    pub fn take(&self) -> Option<T> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// As [`Mailbox::take`]; waits until there is something.
    pub async fn next(&self) -> T {
        loop {
            if let Some(all) = self.take() {
                return all;
            }
            self.wake.notified().await;
        }
    }
}
