//! One immutable value that many read and some replace, by compare-and-swap.
//!
//! `tests/model` runs this very file under a scheduler that tries interleavings: what differs there
//! is the module `primitives`.

use super::primitives::Cell;
use std::sync::Arc;

/// The newest value. Readers never wait, and see whole values only.
#[derive(Debug, Default)]
pub struct Published<T> {
    current: Cell<T>,
}

impl<T> Published<T> {
    /// The newest value.
    pub fn load(&self) -> Arc<T> {
        self.current.load()
    }

    /// Replaces the value by one that is made from it. Where somebody else was faster it is made
    /// again from theirs, so that nothing is lost. Returns what the last making returned.
    pub fn update<R>(&self, mut make: impl FnMut(&T) -> (T, R)) -> R {
        loop {
            let before = self.current.load();
            let (next, result) = make(&before);
            if self.current.compare_and_swap(&before, Arc::new(next)) {
                return result;
            }
        }
    }
}
