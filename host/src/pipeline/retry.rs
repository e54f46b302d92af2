//! When objects are reconciled again without a change: retries and times that were asked for.
//!
//! Nothing here reads a clock; callers say what time it is, as a duration since 1970.

use crate::store::Key;
use backon::{BackoffBuilder, ExponentialBuilder};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// How runs that were not ready are tried again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// The first delay; each one is twice as long as the one before, and up to twice that by jitter.
    pub first: Duration,
    /// The longest delay, before jitter.
    pub longest: Duration,
    /// How long it is tried before the object's status and the log say so.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            longest: Duration::from_secs(30),
            deadline: Duration::from_mins(5),
        }
    }
}

type Delays = <ExponentialBuilder as BackoffBuilder>::Backoff;

#[derive(Debug)]
struct Retry {
    delays: Delays,
    since: Duration,
    due: Option<Duration>,
    overdue: bool,
}

/// What follows a run that was not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is tried again.
    Again,
    /// The deadline has passed; `first` on the first run after it.
    Overdue { first: bool },
}

/// Why an object is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// A retry, which goes on counting.
    Retry,
    /// Something changed, or a time has come: retries start anew.
    Change,
}

/// All that is due at some time.
#[derive(Debug)]
pub(super) struct Schedule {
    policy: RetryPolicy,
    due: BTreeSet<(Duration, Key)>,
    retries: HashMap<Key, Retry>,
    wakes: HashMap<Key, Duration>,
}

impl Schedule {
    pub fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            due: BTreeSet::new(),
            retries: HashMap::new(),
            wakes: HashMap::new(),
        }
    }

    /// Plans the next try of an object. After the deadline a run that waits for something is not
    /// tried again (what it reads will wake it), one that met a fault of the host is, at the
    /// longest delay.
    pub fn retry(&mut self, key: &Key, now: Duration, fault_of_host: bool) -> Verdict {
        let policy = self.policy;
        let retry = self.retries.entry(key.clone()).or_insert_with(|| Retry {
            delays: delays(policy, key),
            since: now,
            due: None,
            overdue: false,
        });
        let before = retry.due.take();
        let overdue = now.saturating_sub(retry.since) >= policy.deadline;
        if !overdue || fault_of_host {
            retry.due = Some(now + retry.delays.next().unwrap_or(policy.longest));
        }
        let after = retry.due;
        let first = overdue && !std::mem::replace(&mut retry.overdue, overdue);
        self.move_due(key, before, after);
        if overdue {
            Verdict::Overdue { first }
        } else {
            Verdict::Again
        }
    }

    /// Ends the retries of an object: it was good, failed, or something changed.
    pub fn end_retries(&mut self, key: &Key) {
        let before = self.retries.remove(key).and_then(|retry| retry.due);
        self.move_due(key, before, None);
    }

    /// Sets or clears the time at which the object asked to be woken.
    pub fn wake(&mut self, key: &Key, seconds: Option<u64>) {
        let at = seconds.map(Duration::from_secs);
        let before = match at {
            Some(at) => self.wakes.insert(key.clone(), at),
            None => self.wakes.remove(key),
        };
        self.move_due(key, before, at);
    }

    /// Follows a change of one of the two times of an object; the other may be the same.
    fn move_due(&mut self, key: &Key, before: Option<Duration>, after: Option<Duration>) {
        if let Some(before) = before
            && !self.is_due_at(key, before)
        {
            self.due.remove(&(before, key.clone()));
        }
        if let Some(after) = after {
            self.due.insert((after, key.clone()));
        }
    }

    fn is_due_at(&self, key: &Key, at: Duration) -> bool {
        let retry = self.retries.get(key).and_then(|retry| retry.due);
        self.wakes.get(key) == Some(&at) || retry == Some(at)
    }

    /// Forgets an object.
    pub fn forget(&mut self, key: &Key) {
        self.end_retries(key);
        self.wake(key, None);
    }

    /// The next time at which something is due.
    pub fn next(&self) -> Option<Duration> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes out what is due by now.
    pub fn take_due(&mut self, now: Duration) -> Vec<(Key, Cause)> {
        let mut taken = Vec::new();
        while let Some((due, _)) = self.due.first()
            && *due <= now
        {
            let Some((due, key)) = self.due.pop_first() else {
                break;
            };
            let woken = self.wakes.get(&key) == Some(&due);
            if woken {
                self.wakes.remove(&key);
            }
            if let Some(retry) = self.retries.get_mut(&key)
                && retry.due == Some(due)
            {
                retry.due = None;
            }
            taken.push((key, if woken { Cause::Change } else { Cause::Retry }));
        }
        taken
    }
}

/// Delays without end. The jitter depends on the object, so that objects that failed together are
/// not tried together, and is the same in every run of a test.
fn delays(policy: RetryPolicy, key: &Key) -> Delays {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    ExponentialBuilder::new()
        .with_min_delay(policy.first)
        .with_max_delay(policy.longest)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(hasher.finish())
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("chiton.dev", "Policy", "default", name)
    }

    const POLICY: RetryPolicy = RetryPolicy {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(8),
        deadline: Duration::from_mins(1),
    };

    #[test]
    fn delays_grow_to_the_longest_and_end_at_the_deadline() {
        let mut schedule = Schedule::new(POLICY);
        let a = key("a");
        let mut now = Duration::from_secs(1000);
        let mut delays = Vec::new();
        while schedule.retry(&a, now, false) == Verdict::Again {
            let due = schedule.next().unwrap_or_default();
            delays.push(due.saturating_sub(now).as_secs_f64());
            now = due;
            assert_eq!(schedule.take_due(now), [(a.clone(), Cause::Retry)]);
        }
        assert!(now >= Duration::from_secs(1060));
        for (at, delay) in delays.iter().enumerate() {
            let base = f64::from(1 << at.min(3));
            assert!((base..=2.0 * base).contains(delay), "{delays:?}");
        }
        assert_eq!(schedule.next(), None);
        assert_eq!(
            schedule.retry(&a, now, true),
            Verdict::Overdue { first: false }
        );
        assert!(schedule.next().is_some(), "a host's fault is tried on");
        schedule.end_retries(&a);
        assert_eq!(schedule.next(), None);
        assert_eq!(schedule.retry(&a, now, false), Verdict::Again);
    }

    #[test]
    fn a_wake_and_a_retry_at_one_time_do_not_remove_each_other() {
        let mut schedule = Schedule::new(POLICY);
        let a = key("a");
        schedule.retry(&a, Duration::ZERO, false);
        schedule.wake(&a, Some(100));
        schedule.wake(&a, Some(50));
        schedule.end_retries(&a);
        assert_eq!(schedule.next(), Some(Duration::from_secs(50)));
        assert_eq!(
            schedule.take_due(Duration::from_secs(50)),
            [(a.clone(), Cause::Change)]
        );
        assert_eq!(schedule.next(), None);
    }
}
