//! Publication and channel under many interleavings.
//!
//! The files of the host that do it are compiled here a second time, with primitives that let a
//! scheduler decide who goes on at each of their steps ([`shuttle`]). A failing schedule is printed
//! and can be replayed. `cargo test` tries some thousands, the ignored tests many more.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../src/pipeline/fold.rs"]
mod fold;
#[path = "../../src/store/mailbox.rs"]
mod mailbox;
#[path = "../../src/store/published.rs"]
mod published;

mod channel;
mod publication;

/// As `store::primitives`, under the scheduler.
mod primitives {
    pub use shuttle::sync::Mutex;
    use std::sync::Arc;

    /// Each operation is one step, as it is on an atomic pointer.
    #[derive(Debug, Default)]
    pub struct Cell<T>(Mutex<Arc<T>>);

    impl<T> Cell<T> {
        pub fn load(&self) -> Arc<T> {
            self.0.lock().unwrap().clone()
        }

        pub fn compare_and_swap(&self, before: &Arc<T>, next: Arc<T>) -> bool {
            let mut current = self.0.lock().unwrap();
            let is_newest = Arc::ptr_eq(&current, before);
            if is_newest {
                *current = next;
            }
            is_newest
        }
    }
}

/// Schedules in `cargo test`, and in the ignored tests.
const SOME: usize = 3_000;
const MANY: usize = 300_000;
