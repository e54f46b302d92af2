//! What a stream knows of one type.

use crate::ResourceType;
use crate::rows::Rows;
use crate::snapshot::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Responses of one type that may wait for an answer at once, where the client does not answer.
const MAX_UNANSWERED: usize = 4;

/// One resource in a response. Responses of route configurations may carry virtual hosts too.
pub(super) type Part = (ResourceType, Arc<str>);

/// One resource in a response, in the form in which it was sent.
pub(super) type Sent = (ResourceType, Arc<Entry>);

/// A response that was sent and not answered.
#[derive(Debug)]
pub(super) struct InFlight {
    pub nonce: String,
    /// What in it the client had not accepted before.
    pub parts: Vec<Sent>,
    /// What it says is gone.
    pub removed: Vec<Part>,
    /// With its answer all that was marked up to this mark is done.
    pub covers: Option<u64>,
    pub sent_at: Instant,
}

/// Removals that wait for what may refer to the removed.
#[derive(Debug)]
pub(super) struct Leaving {
    pub names: BTreeSet<Arc<str>>,
    /// Marks of other types that must be done first, in the order of `order::refer_to`.
    pub after: Vec<u64>,
    pub since: Instant,
}

/// See the module.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not exclude each other"
)]
#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// A request of this type was seen.
    pub opened: bool,
    /// Everything is subscribed.
    pub wildcard: bool,
    /// Names that are subscribed.
    pub names: BTreeSet<Arc<str>>,
    /// State of the world: a request named something. From then on one that names nothing asks for
    /// nothing.
    pub named: bool,
    /// Of the newest response.
    pub nonce: String,
    /// What the client has.
    pub rows: Rows,
    /// The forms that the client accepted last, where responses repeat what is unchanged.
    pub forms: BTreeMap<Arc<str>, Arc<Entry>>,
    /// A response was accepted.
    pub accepted: bool,
    /// What to look at, and whether it is to be sent even if the client has it.
    pub dirty: BTreeMap<Part, bool>,
    /// The client waits for a first response, even an empty one.
    pub greet: bool,
    /// Parts of rejected responses, to be sent again in smaller ones.
    pub retry: VecDeque<Vec<Part>>,
    /// Removals, oldest first.
    pub leaving: VecDeque<Leaving>,
    /// Oldest first.
    pub in_flight: VecDeque<InFlight>,
    /// Counts marks: grows whenever a name becomes dirty.
    pub changed: u64,
    /// All that was marked up to here has been sent.
    pub sent: u64,
    /// All that was marked up to here has been answered.
    pub clean: u64,
    /// Nobody waits any more for what was marked up to here.
    pub given_up: u64,
    /// Since when what is dirty waits for other types.
    pub blocked_since: Option<Instant>,
}

impl Subscription {
    /// Whether the client wants to hear of the name.
    pub fn covers(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Has the next response look at something.
    pub fn mark(&mut self, part: Part, force: bool) {
        self.changed += 1;
        *self.dirty.entry(part).or_default() |= force;
    }

    /// Whether there is something to put.
    pub fn has_puts(&self) -> bool {
        self.greet || !self.dirty.is_empty() || !self.retry.is_empty()
    }

    /// Whether nothing waits and nothing is under way, but for removals that wait.
    pub fn is_settled(&self) -> bool {
        !self.has_puts() && self.in_flight.is_empty()
    }

    /// Whether a response may be sent: one at a time, unless the client has not answered for long.
    pub fn may_send(&self, now: Instant, stuck: Duration) -> bool {
        match self.in_flight.back() {
            None => true,
            Some(last) => self.has_room() && now >= last.sent_at + stuck,
        }
    }

    /// Whether the number of unanswered responses leaves room for another one.
    pub fn has_room(&self) -> bool {
        self.in_flight.len() < MAX_UNANSWERED
    }

    /// Brings the marks up to date.
    pub fn settle(&mut self) {
        if self.dirty.is_empty() {
            self.sent = self.changed;
        }
        if self.is_settled() {
            self.clean = self.changed;
        }
    }

    /// A response was answered, for good or bad.
    pub fn answered(&mut self, response: &InFlight) {
        if let Some(mark) = response.covers.filter(|_| self.retry.is_empty()) {
            self.clean = self.clean.max(mark);
        }
    }
}
