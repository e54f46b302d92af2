//! Fetching and compiling an offer, on a thread of its own.
//!
//! Neither ends within a time that other modules could wait for: a file system may hang, a component
//! may be hard to compile.

use super::candidate::{self, Candidate};
use super::info::ModuleState;
use super::offer::Offer;
use crate::sandbox::{Engine, Role};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// One offer that is being prepared, or has been.
#[derive(Clone, Debug)]
pub(super) struct Preparation(Arc<Mutex<Progress>>);

#[derive(Debug)]
enum Progress {
    Fetching,
    /// With the SHA-256 of what was fetched.
    Compiling(String),
    Done(Result<Candidate, String>),
}

impl Preparation {
    /// Begins. The bell rings when it has ended.
    pub(super) fn start(
        engine: &Engine,
        offer: &Offer,
        role: Option<Role>,
        bell: &Arc<Bell>,
    ) -> Self {
        let preparation = Self(Arc::new(Mutex::new(Progress::Fetching)));
        let (engine, offer, bell) = (engine.clone(), offer.clone(), bell.clone());
        let it = preparation.clone();
        let work = move || {
            let prepare = || {
                candidate::prepare(&engine, &offer, role, |digest| {
                    *it.lock() = Progress::Compiling(digest.to_owned());
                })
            };
            let result = catch_unwind(AssertUnwindSafe(prepare));
            let result = result.unwrap_or_else(|_| Err("loading it panicked".to_owned()));
            *it.lock() = Progress::Done(result);
            bell.ring();
        };
        let thread = std::thread::Builder::new().name("load-module".to_owned());
        if let Err(error) = thread.spawn(work) {
            let reason = format!("there is no thread to load it on: {error}");
            *preparation.lock() = Progress::Done(Err(reason));
        }
        preparation
    }

    /// What came of it, once it has ended.
    pub(super) fn result(&self) -> Option<Result<Candidate, String>> {
        match &*self.lock() {
            Progress::Done(result) => Some(result.clone()),
            Progress::Fetching | Progress::Compiling(_) => None,
        }
    }

    /// How far it is, and the SHA-256 of what it has fetched.
    pub(super) fn state(&self) -> (ModuleState, String) {
        match &*self.lock() {
            Progress::Compiling(digest) => (ModuleState::Verified, digest.clone()),
            Progress::Fetching | Progress::Done(_) => (ModuleState::Fetched, String::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells that a preparation has ended.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<u64>,
    heard: Condvar,
    told: Notify,
}

impl Bell {
    /// How often it has rung.
    pub(super) fn rung(&self) -> u64 {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has rung more often than that. Returns false if `deadline` comes first.
    pub(super) fn wait(&self, rung: u64, deadline: Option<Instant>) -> bool {
        let mut now = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while *now == rung {
            now = match deadline.map(|it| it.saturating_duration_since(Instant::now())) {
                None => self.heard.wait(now).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return false,
                Some(left) => {
                    let waited = self.heard.wait_timeout(now, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }

    /// Waits until it rings. What rang since the last call counts.
    pub(super) async fn told(&self) {
        self.told.notified().await;
    }

    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.heard.notify_all();
        self.told.notify_one();
    }
}
