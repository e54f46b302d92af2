//! What changes of objects mean for what is known of them.

use super::flights::Place;
use super::form::Form;
use super::held::Held;
use super::{Accepted, Holder, LOOK_AT, Open, Proxies};
use crate::pipeline::World;
use crate::store::Key;
use std::collections::BTreeSet;
use std::ops::Bound;
use tracing::{info, warn};

/// Former forms that are remembered.
const MAX_FORMER: usize = 1_024;

/// A form that proxies had not accepted when it changed, or its object went.
#[derive(Debug)]
pub(super) struct Former {
    /// The first publish that it was in.
    since: u64,
    /// The last one.
    until: u64,
    places: BTreeSet<Place>,
}

impl Holder {
    /// Whether a rejection of a resource as it was at a publish may be the fault of something that
    /// is not there any more.
    pub(super) fn was_perhaps_former(&self, place: &Place, number: u64) -> bool {
        let was_in =
            |it: &Former| (it.since..=it.until).contains(&number) && it.places.contains(place);
        self.former.iter().any(was_in)
    }

    /// Takes note of an object that may have changed. `before` is the world before.
    pub(super) fn take(&mut self, key: &Key, before: &World, proxies: &dyn Proxies) {
        let old = Form::of(key, before);
        let new = Form::of(key, &self.truth);
        if new.same(key, &old) {
            return;
        }
        if new.counts(key) {
            self.renew(key, old, &new, proxies);
        } else {
            self.forget(key);
        }
        self.retry_what_refers_to(key);
    }

    fn renew(&mut self, key: &Key, old: Form, new: &Form, proxies: &dyn Proxies) {
        let since = self.number + 1;
        if !self.started {
            self.restore(key, new);
            return;
        }
        if self.held.contains_key(key) {
            self.release(key);
            return;
        }
        let known = self.open.remove(key).or_else(|| self.idle.remove(key));
        let accepted = match known {
            Some(open) if self.is_waiting(key) => open.accepted,
            Some(open)
                if self.is_questioned(key) || !self.is_accepted(key, open.since, proxies) =>
            {
                self.note_former(key, open.since);
                open.accepted
            }
            _ => Accepted::Known(old),
        };
        self.open.insert(key.clone(), Open { since, accepted });
        for inquiry in &mut self.inquiries {
            inquiry.changed(key);
        }
    }

    /// An object that was there when the host started: what an earlier host knew of it counts.
    fn restore(&mut self, key: &Key, new: &Form) {
        let (accepted, refused) = match self.restored.find(key, new) {
            Some(known) => known,
            None => (Accepted::Unknown, None),
        };
        self.open.remove(key);
        let was_held = self.held.remove(key).is_some();
        if was_held || refused.is_some() {
            self.touched.insert(key.clone());
            self.news = true;
        }
        if let Some(text) = refused {
            if matches!(accepted, Accepted::Unknown) {
                warn!(
                    object = %key, text,
                    "an object that proxies refused before the restart; the form that they accepted \
                     is nowhere saved (the content of Secrets never is), so proxies keep what they \
                     have of it, and it is left out for those that have nothing: change it"
                );
            }
            let held = Held::new(new, accepted, text, &self.fails_closed);
            self.held.insert(key.clone(), held);
        } else {
            let since = self.number + 1;
            self.open.insert(key.clone(), Open { since, accepted });
        }
    }

    /// Leaves out of a resource that no proxy has accepted in any form what is held and of which the
    /// accepted form is not known: there is nothing that leaving it out could take away. Whether there
    /// is such an object.
    pub(super) fn leave_out_unknown(&mut self, place: &Place, proxies: &dyn Proxies) -> bool {
        let possessions = proxies.possessions(&place.0, &place.1);
        if possessions.iter().any(|has| has.accepted.is_some()) {
            return false;
        }
        let contributors = self.synchronizer.contributors(place);
        let mut found = false;
        for key in contributors.content.iter().chain(&contributors.frame) {
            if let Some(held) = self.held.get_mut(key)
                && matches!(held.accepted, Accepted::Unknown)
            {
                warn!(object = %key, "left out: proxies refused it, and what they had before was not saved over a restart");
                held.accepted = Accepted::Known(Form::default());
                self.touched.insert(key.clone());
                self.news = true;
                found = true;
            }
        }
        found
    }

    /// Tries a held object again.
    pub(super) fn release(&mut self, key: &Key) {
        if let Some(held) = self.held.remove(key) {
            info!(object = %key, "an object that proxies refused is tried again");
            let open = Open {
                since: self.number + 1,
                accepted: held.accepted,
            };
            self.open.insert(key.clone(), open);
            self.touched.insert(key.clone());
            self.news = true;
        }
    }

    fn retry_what_refers_to(&mut self, key: &Key) {
        let concerned = |(other, held): &(&Key, &Held)| {
            held.refers_to.contains(key)
                || self
                    .synchronizer
                    .policies_on(other)
                    .any(|policy| policy == key)
        };
        let again: Vec<Key> = self
            .held
            .iter()
            .filter(concerned)
            .map(|(key, _)| key.clone())
            .collect();
        if self.started {
            for key in again {
                self.release(&key);
            }
        }
    }

    /// An object is gone, or has come to nothing.
    fn forget(&mut self, key: &Key) {
        if let Some(open) = self.open.remove(key) {
            self.note_former(key, open.since);
        }
        self.idle.remove(key);
        if self.held.remove(key).is_some() {
            self.touched.insert(key.clone());
            self.news = true;
        }
        if !self.is_questioned(key) {
            return;
        }
        for index in 0..self.inquiries.len() {
            let Some(inquiry) = self.inquiries.get_mut(index) else {
                break;
            };
            let culprits = inquiry.search.gone(key);
            self.step(index, culprits);
        }
        self.inquiries.retain(|it| !it.search.is_over());
    }

    /// A form that proxies may still reject is no longer published.
    fn note_former(&mut self, key: &Key, since: u64) {
        if self.former.len() == MAX_FORMER {
            self.former.pop_front();
        }
        self.former.push_back(Former {
            since,
            until: self.number,
            places: self.synchronizer.contributes_to(key),
        });
    }

    /// Whether the proxies that are there have accepted what is served of an object since a publish.
    pub(super) fn is_accepted(&mut self, key: &Key, since: u64, proxies: &dyn Proxies) -> bool {
        let mut places = self.synchronizer.contributes_to(key);
        places.retain(|(fleet, _)| proxies.is_connected(fleet));
        for place in &places {
            self.flights.ask(place, proxies);
        }
        let accepted = |place| self.flights.accepted(place) >= since;
        !places.is_empty() && places.iter().all(accepted)
    }

    /// Lets objects come to rest that proxies have accepted.
    pub(super) fn settle(&mut self, proxies: &dyn Proxies) {
        if self.flights.is_empty() {
            self.former.clear();
            let open = std::mem::take(&mut self.open);
            let questioned = open.into_iter().filter(|(key, _)| self.is_questioned(key));
            self.open = questioned.collect();
            return;
        }
        let from = self.cursor.take().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.open.range((from, Bound::Unbounded)).take(LOOK_AT);
        let keys: Vec<(Key, u64)> = rest.map(|(key, it)| (key.clone(), it.since)).collect();
        if keys.len() == LOOK_AT {
            self.cursor = keys.last().map(|(key, _)| key.clone());
        }
        for (key, since) in keys {
            if !self.is_questioned(&key) && self.is_accepted(&key, since, proxies) {
                self.open.remove(&key);
            }
        }
    }
}
