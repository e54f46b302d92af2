//! Holding back what proxies refuse, and nothing else.
//!
//! A proxy rejects whole resources, and a virtual host is shared by many routes. [`Holder`] stands
//! around the [`Synchronizer`]: it finds the object that is to blame for a rejection and *holds* it,
//! which means that assembly sees the object's last accepted form instead of its current one.
//! Everything else flows. It is a state machine too: it is told of batches ([`Holder::apply`]) and
//! that proxies have said something ([`Holder::answer`]), and returns what is to be published.
//!
//! An object is in one of these states:
//!
//! | state | its current form | served is |
//! | --- | --- | --- |
//! | *at rest* | proxies have accepted it | the current form |
//! | *open* | is published and not accepted yet | the current form |
//! | *idle* | is in no resource, so nobody can accept it | the current form |
//! | *waiting* | is suspected ([`search`]), and it is not its turn | the last accepted form |
//! | *held* | proxies refused it | the last accepted form, or what [`Held`] says |
//!
//! Who is suspected: an object that put something into the rejected resource ([`contributors`]) and
//! whose current form proxies have not accepted in it ([`flights`]). A single suspect is held at
//! once. Several are searched by halves: the waiting ones are at their last accepted form meanwhile,
//! so nothing that was served stops being served. Where nobody is suspected nobody is held, and the
//! proxies keep what they have.
//!
//! A held object is tried again when it changes, or an object that it refers to, and at no other
//! time.

mod blame;
mod changes;
mod contributors;
mod flights;
mod form;
mod held;
mod saved;
mod search;
#[cfg(test)]
mod tests;

pub use saved::AcceptedForms;

use super::{Delta, Findings, Synchronizer};
use crate::pipeline::World;
use crate::pipeline::channel::{Batch, Event};
use crate::store::Key;
use blame::Inquiry;
use changes::Former;
use chiton_xds::{Change, Possession, RejectionEvent, ResourceName, ResourceType};
use flights::{Flights, Place};
use form::Form;
use held::{Held, shadow};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Resources and objects that are looked at when proxies have said something: what is left is
/// looked at the next time.
const LOOK_AT: usize = 256;

/// How long a trial waits for proxies that do not answer while others do.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the connected proxies have and say.
pub trait Proxies {
    /// Rejections after the one of this number, oldest first.
    fn rejections_since(&self, number: u64) -> Vec<RejectionEvent>;
    /// What each proxy of a fleet has of a resource.
    fn possessions(&self, fleet: &str, name: &ResourceName) -> Vec<Possession>;
    /// Whether a proxy of the fleet is connected.
    fn is_connected(&self, fleet: &str) -> bool;
    /// Whether proxies of the fleet are connected, and all of them have accepted everything.
    fn is_settled(&self, fleet: &str) -> bool;
}

impl Proxies for chiton_xds::Server {
    fn rejections_since(&self, number: u64) -> Vec<RejectionEvent> {
        self.ledger().rejections_since(number)
    }

    fn possessions(&self, fleet: &str, name: &ResourceName) -> Vec<Possession> {
        self.ledger().possessions(fleet, name)
    }

    fn is_connected(&self, fleet: &str) -> bool {
        let programmed = self.ledger().programmed(fleet, &[]);
        programmed != chiton_xds::Programmed::NoProxy
    }

    fn is_settled(&self, fleet: &str) -> bool {
        Self::is_settled(self, fleet)
    }
}

/// The form of an object that proxies accepted last.
#[derive(Clone, Debug)]
pub(in crate::synchronizer) enum Accepted {
    /// This one; the empty form if it has never had one.
    Known(Form),
    /// The object was there when the host started, and what the proxies have of it is not known.
    Unknown,
}

/// An object whose current form proxies have not accepted, or not yet.
#[derive(Clone, Debug)]
struct Open {
    /// The publish in which it is first.
    since: u64,
    accepted: Accepted,
}

/// What status says of an object that is held or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Reason of `Programmed=False`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// An object that is held because of what its module returns since it was swapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// The object.
    pub object: Key,
    /// Name of the module.
    pub module: String,
    /// The proxy's words.
    pub text: String,
}

/// Says whether a module's failure policy is `fail-closed`.
type FailsClosed = Box<dyn Fn(&str) -> bool + Send>;

/// See the module.
pub struct Holder {
    synchronizer: Synchronizer,
    fails_closed: FailsClosed,
    /// The world as it is, without regard to what is held.
    truth: World,
    /// What is assembled is complete: until then nothing of it has reached a proxy.
    started: bool,
    /// Number of the newest publish; 0 before the first.
    number: u64,
    /// Number of the last rejection that was looked at.
    heard: u64,
    flights: Flights,
    open: BTreeMap<Key, Open>,
    idle: BTreeMap<Key, Open>,
    held: BTreeMap<Key, Held>,
    /// Oldest first.
    former: VecDeque<Former>,
    inquiries: Vec<Inquiry>,
    /// What an earlier host held.
    restored: AcceptedForms,
    /// Objects that must be assembled again because of what was found out.
    touched: BTreeSet<Key>,
    /// The newest publish that took something out or let something in because of what was found out.
    acted: u64,
    /// Rejected resources that are to be looked at once what is about to be published is.
    put_off: BTreeSet<Place>,
    /// Whether notices may be other than those that were taken.
    news: bool,
    blamed: Vec<Blamed>,
    /// Where the next look at open objects begins.
    cursor: Option<Key>,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("number", &self.number)
            .field("open", &self.open.len())
            .field("held", &self.held.keys())
            .field("inquiries", &self.inquiries)
            .finish_non_exhaustive()
    }
}

impl Holder {
    /// A holder around a synchronizer that has seen nothing. `fails_closed` says whether the failure
    /// policy of a module is `fail-closed`; `restored` is what an earlier host knew.
    #[must_use]
    pub fn new(
        synchronizer: Synchronizer,
        fails_closed: impl Fn(&str) -> bool + Send + 'static,
        restored: AcceptedForms,
    ) -> Self {
        Self {
            synchronizer,
            fails_closed: Box::new(fails_closed),
            truth: World::default(),
            started: false,
            number: 0,
            heard: 0,
            flights: Flights::default(),
            open: BTreeMap::new(),
            idle: BTreeMap::new(),
            held: BTreeMap::new(),
            former: VecDeque::new(),
            inquiries: Vec::new(),
            restored,
            touched: BTreeSet::new(),
            acted: 0,
            put_off: BTreeSet::new(),
            news: false,
            blamed: Vec::new(),
            cursor: None,
        }
    }

    /// All that there was when the host started has been applied. What proxies say counts from now
    /// on, and objects that come are new.
    pub fn start(&mut self) {
        self.started = true;
        self.restored = AcceptedForms::default();
    }

    /// Applies a batch.
    pub fn apply(&mut self, batch: &Batch, proxies: &dyn Proxies, now: Instant) -> Delta {
        self.hear(proxies, now);
        let before = std::mem::replace(&mut self.truth, batch.world.clone());
        for key in batch.events.keys() {
            self.take(key, &before, proxies);
        }
        self.publish(batch.events.clone(), now)
    }

    /// Looks at what proxies have said since the last time. Called again until it returns nothing.
    pub fn answer(&mut self, proxies: &dyn Proxies, now: Instant) -> Option<Delta> {
        self.hear(proxies, now);
        (!self.touched.is_empty()).then(|| self.publish(BTreeMap::new(), now))
    }

    /// When to look again although no proxy says anything.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let ends = self.inquiries.iter().map(|it| it.since + PATIENCE);
        ends.filter(|end| *end > now).min()
    }

    /// What status must say of objects that are held or wait, if it is something else than the last
    /// time.
    pub fn take_notices(&mut self) -> Option<BTreeMap<Key, Notice>> {
        if !std::mem::take(&mut self.news) {
            return None;
        }
        let held = self.held.iter().map(|(key, it)| (key, it.notice(key)));
        let waiting = self.inquiries.iter().flat_map(Inquiry::notices);
        Some(
            waiting
                .chain(held)
                .map(|(key, it)| (key.clone(), it))
                .collect(),
        )
    }

    /// Objects that were held since the last time because of a swap of their module.
    pub fn take_blamed(&mut self) -> Vec<Blamed> {
        std::mem::take(&mut self.blamed)
    }

    /// What the next host needs to hold what this one holds.
    #[must_use]
    pub fn accepted_forms(&self) -> AcceptedForms {
        AcceptedForms::of(&self.held)
    }

    /// What the synchronizer says of an object, if it says anything.
    #[must_use]
    pub fn findings(&self, key: &Key) -> Option<&Findings> {
        self.synchronizer.findings(key)
    }

    /// Has the synchronizer assemble what changed and what was found out.
    fn publish(&mut self, mut events: BTreeMap<Key, Event>, now: Instant) -> Delta {
        self.number += 1;
        if !self.touched.is_empty() {
            self.acted = self.number;
        }
        for key in std::mem::take(&mut self.touched) {
            events.entry(shadow(&key)).or_insert(Event::Update);
            events.entry(key).or_insert(Event::Update);
        }
        for inquiry in &mut self.inquiries {
            inquiry.published(self.number, now);
        }
        self.close_waiting();
        let world = self.shown();
        let batch = Batch { events, world };
        let mut delta = self.synchronizer.apply_over(&batch, &self.truth);
        delta.findings.retain(|key, _| !held::is_shadow(key));
        let rejected = self.flights.publish(self.number, &delta);
        self.put_off.extend(rejected);
        self.find_idle(&batch);
        self.find_busy(&delta);
        delta
    }

    /// The world as assembly is shown it.
    fn shown(&self) -> World {
        let mut world = self.truth.clone();
        for (key, held) in &self.held {
            held.put(key, &mut world);
        }
        for inquiry in &self.inquiries {
            for key in inquiry.search.waiting() {
                if let Some(Accepted::Known(form)) = self.open.get(key).map(|it| &it.accepted) {
                    form.put(key, blame::WAITS, &mut world);
                    let closed = inquiry.closed.get(key).cloned();
                    held::close(key, closed.unwrap_or_default(), &mut world);
                }
            }
        }
        world
    }

    /// Closes those targets of waiting policies that were never served without them.
    fn close_waiting(&mut self) {
        for inquiry in &mut self.inquiries {
            let mut closed = BTreeMap::new();
            // Also those on trial: they may have to wait again.
            for key in inquiry.search.waiting().chain(inquiry.search.trial()) {
                let Some(Accepted::Known(form)) = self.open.get(key).map(|it| &it.accepted) else {
                    continue;
                };
                let now = Form::of(key, &self.truth);
                let before = inquiry.closed.get(key);
                let mut targets = held::closed_targets(&now, form, &self.fails_closed);
                targets.retain(|target| {
                    let is_closed = before.is_some_and(|it| it.contains(target));
                    is_closed || is_new(self.open.get(&Key::from(&target.object)))
                });
                closed.insert(key.clone(), targets);
            }
            inquiry.closed = closed;
        }
    }

    /// Sets aside what changed and is in no resource.
    fn find_idle(&mut self, batch: &Batch) {
        for key in batch.events.keys() {
            if !self.is_questioned(key)
                && !self.synchronizer.contributes(key)
                && let Some(open) = self.open.remove(key)
            {
                self.idle.insert(key.clone(), open);
            }
        }
    }

    /// Takes up what is in a resource now.
    fn find_busy(&mut self, delta: &Delta) {
        if self.idle.is_empty() {
            return;
        }
        let served = delta.findings.iter().filter(|(_, it)| {
            it.as_ref()
                .is_some_and(|findings| !findings.resources.is_empty())
        });
        let mut busy: BTreeSet<Key> = served.map(|(key, _)| key.clone()).collect();
        for policy in busy.clone() {
            busy.extend(self.synchronizer.secrets_of(&policy).cloned());
        }
        for (fleet, changes) in &delta.resources {
            let fleet: Arc<str> = fleet.as_str().into();
            for change in changes {
                let Change::Put(resource) = change else {
                    continue;
                };
                let name = &resource.name;
                if matches!(name.kind, ResourceType::Cluster | ResourceType::Secret) {
                    let place = (fleet.clone(), name.clone());
                    busy.extend(self.synchronizer.contributors(&place).content);
                }
            }
        }
        for key in busy {
            if let Some(open) = self.idle.remove(&key) {
                let since = self.number;
                self.open.insert(key, Open { since, ..open });
            }
        }
    }

    /// Whether an object is suspected.
    fn is_questioned(&self, key: &Key) -> bool {
        let mut searches = self.inquiries.iter().map(|it| &it.search);
        searches.any(|it| it.trial().contains(key) || it.waiting().any(|other| other == key))
    }
}

/// Whether proxies have accepted no form of an object.
fn is_new(open: Option<&Open>) -> bool {
    let accepted = open.map(|open| &open.accepted);
    matches!(accepted, Some(Accepted::Known(form)) if form.documents().is_none())
}

#[cfg(test)]
impl Holder {
    /// A virtual host of the default fleet as it is assembled now.
    fn assembled(&self, route_config: &str, hostname: &str) -> Option<super::model::VirtualHost> {
        self.synchronizer.assembled(route_config, hostname)
    }
}
