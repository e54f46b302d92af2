//! The threads on which reconcilers run.
//!
//! Modules take turns: the next job is one of the module that has the fewest running, and no module
//! has all threads, so that a slow one does not keep the others' objects waiting.

use super::run::{Done, Job, run};
use crate::store::Key;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Results that are handed over together while more are under way: who takes them is not woken for
/// each.
const TOGETHER: usize = 32;

/// A pool. Dropping it lets its threads end after their current run.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Told when there are results to be taken.
    ended: Condvar,
    /// Told after each result: who does not wait in [`Pool::next`] waits here.
    done: Arc<Notify>,
    /// Runs of one module at the same time.
    share: usize,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<String, Queue>,
    turn: u64,
    /// Those that nobody has taken.
    results: Vec<Done>,
    closed: bool,
}

/// Jobs of one module.
#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
    /// When it was served last.
    turn: u64,
}

impl Pool {
    /// A pool of this many threads, at least 1. Without threads (the system refuses them) it does
    /// nothing, and the error says so.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            done: Arc::default(),
            share: threads.saturating_sub(1).max(1),
        });
        for number in 0..threads.max(1) {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("reconcile-{number}"))
                .spawn(move || shared.serve())?;
        }
        Ok(Self { shared })
    }

    /// Adds jobs.
    pub fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut state = self.shared.lock();
        for job in jobs {
            let queue = state.queues.entry(job.module.name.clone()).or_default();
            queue.jobs.push_back(job);
        }
        drop(state);
        self.shared.work.notify_all();
    }

    /// Takes back the jobs that no thread has started.
    pub fn withdraw(&self) -> Vec<Key> {
        let mut state = self.shared.lock();
        state
            .queues
            .values_mut()
            .flat_map(|queue| queue.jobs.drain(..))
            .map(|job| job.key().clone())
            .collect()
    }

    /// Whether a module has as many runs as it may have at the same time.
    pub fn is_full(&self, module: &str) -> bool {
        let state = self.shared.lock();
        let queue = state.queues.get(module);
        queue.is_some_and(|queue| queue.running >= self.shared.share)
    }

    /// The next results; none if no run ends in this time. While there is more to run they may come a
    /// little late, so that many come at once.
    pub fn next(&self, patience: Duration) -> Vec<Done> {
        let none = |state: &mut State| state.results.is_empty();
        let (mut state, _) = self
            .shared
            .ended
            .wait_timeout_while(self.shared.lock(), patience, none)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.results)
    }

    /// See [`Shared::done`].
    pub fn done(&self) -> Arc<Notify> {
        self.shared.done.clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn serve(&self) {
        while let Some(job) = self.take() {
            self.finished(run(job));
        }
    }

    /// The next job; waits for one. None once the pool is closed.
    fn take(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.next(self.share) {
                return Some(job);
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes a result. No thread needs to be woken for the job that this may have made possible: the
    /// one that calls is about to look for it.
    fn finished(&self, done: Done) {
        let mut state = self.lock();
        let module = &done.job.module.name;
        if let Some(queue) = state.queues.get_mut(module) {
            queue.running = queue.running.saturating_sub(1);
            if queue.running == 0 && queue.jobs.is_empty() {
                state.queues.remove(module);
            }
        }
        state.results.push(done);
        let tell = state.results.len() >= TOGETHER || !state.has_work(self.share);
        drop(state);
        if tell {
            self.ended.notify_one();
        }
        self.done.notify_one();
    }
}

impl Queue {
    fn may_run(&self, share: usize) -> bool {
        !self.jobs.is_empty() && self.running < share
    }
}

impl State {
    fn has_work(&self, share: usize) -> bool {
        self.queues.values().any(|queue| queue.may_run(share))
    }

    fn next(&mut self, share: usize) -> Option<Job> {
        let queue = self
            .queues
            .values_mut()
            .filter(|queue| queue.may_run(share))
            .min_by_key(|queue| (queue.running, queue.turn))?;
        self.turn += 1;
        queue.turn = self.turn;
        queue.running += 1;
        queue.jobs.pop_front()
    }
}
