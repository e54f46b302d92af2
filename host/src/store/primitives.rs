//! What [`super::published`] and [`super::mailbox`] are made of.

use arc_swap::ArcSwap;
use std::sync::Arc;
pub use std::sync::Mutex;

/// A pointer that is read without waiting and replaced by compare-and-swap.
#[derive(Debug, Default)]
pub struct Cell<T>(ArcSwap<T>);

impl<T> Cell<T> {
    /// The newest value.
    pub fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces `before` if it is still the newest value; whether it was.
    pub fn compare_and_swap(&self, before: &Arc<T>, next: Arc<T>) -> bool {
        Arc::ptr_eq(&self.0.compare_and_swap(before, next), before)
    }
}
