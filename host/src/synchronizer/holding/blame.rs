//! Who is to blame for a rejection.

use super::flights::Place;
use super::form::Form;
use super::held::Held;
use super::search::Search;
use super::{Accepted, Blamed, Holder, LOOK_AT, Notice, Open, PATIENCE, Proxies};
use crate::store::Key;
use chiton_ir::policy::Target;
use chiton_xds::{RejectionEvent, ResourceType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tracing::{debug, error, warn};

/// Why a waiting object that the host reads itself cannot be used.
pub const WAITS: &str = "a proxy refused a resource that it is in, and whose fault that is is being \
                         found out";

/// A search among objects, with what its verdicts are about.
#[derive(Debug)]
pub struct Inquiry {
    pub search: Search<Key>,
    /// The publish that the trial is about; 0 if it has not been published.
    number: u64,
    /// Since when the trial waits.
    pub since: Instant,
    /// What proxies said of resources that objects are in.
    texts: BTreeMap<Key, String>,
    /// Targets of waiting policies that are closed meanwhile.
    pub closed: BTreeMap<Key, BTreeSet<Target>>,
}

impl Inquiry {
    fn new(search: Search<Key>, now: Instant) -> Self {
        Self {
            search,
            number: 0,
            since: now,
            texts: BTreeMap::new(),
            closed: BTreeMap::new(),
        }
    }

    /// The trial leaves with this publish, if it has not left.
    pub fn published(&mut self, number: u64, now: Instant) {
        if self.number == 0 {
            self.number = number;
            self.since = now;
        }
    }

    /// A suspect changed: a trial that it is on starts anew.
    pub fn changed(&mut self, key: &Key) {
        self.search.changed(key);
        if self.search.trial().contains(key) {
            self.number = 0;
        }
    }

    /// What status says of those who wait.
    pub fn notices(&self) -> impl Iterator<Item = (&Key, Notice)> {
        self.search.waiting().map(|key| {
            let notice = Notice {
                reason: chiton_ir::condition::words::PENDING,
                message: format!(
                    "{WAITS}; the form that proxies accepted last is served until then"
                ),
            };
            (key, notice)
        })
    }
}

impl Holder {
    /// Looks at what proxies have said.
    pub(super) fn hear(&mut self, proxies: &dyn Proxies, now: Instant) {
        if !self.started {
            return;
        }
        self.hear_again(proxies, now);
        for rejection in proxies.rejections_since(self.heard) {
            self.heard = rejection.number;
            self.on_rejection(&rejection, proxies, now);
        }
        self.flights.look(proxies, LOOK_AT);
        self.judge(proxies, now);
        self.settle(proxies);
    }

    fn on_rejection(&mut self, rejection: &RejectionEvent, proxies: &dyn Proxies, now: Instant) {
        if rejection.name.kind == ResourceType::Endpoints {
            let (fleet, text) = (&rejection.group, &rejection.text);
            error!(
                fleet,
                cluster = rejection.name.name,
                text,
                "a proxy refused endpoints"
            );
            return;
        }
        let place: Place = (rejection.group.as_str().into(), rejection.name.clone());
        let text: Arc<str> = rejection.text.as_str().into();
        let Some(number) = self.flights.published(&place, &rejection.version) else {
            debug!(resource = %place.1, "a proxy refused what others have accepted");
            if !self.flights.contains(&place) {
                self.flights.note_dissent(&place, proxies);
            }
            return;
        };
        if self.flights.is_dissent(&place, proxies) {
            debug!(resource = %place.1, "a proxy refused again what others have accepted");
            return;
        }
        let is_newest = self.flights.reject(&place, &rejection.version, &text);
        if is_newest && self.is_due(&place) {
            self.put_off.insert(place);
        } else if is_newest {
            self.blame(&place, self.number, &text, proxies, now);
        } else if number >= self.acted && !self.was_perhaps_former(&place, number) {
            self.blame(&place, number, &text, proxies, now);
        }
        // What was rejected before something was taken out, or changed, says nothing of what is
        // there now: that is judged on its own.
    }

    /// Whether a resource is about to be published without somebody who put something into it, or
    /// with somebody else.
    fn is_due(&self, place: &Place) -> bool {
        let contributors = self.synchronizer.contributors(place);
        let mut all = contributors.content.iter().chain(&contributors.frame);
        all.any(|key| self.touched.contains(key))
    }

    /// Looks again at rejected resources that were about to be published, and were not changed by
    /// that.
    fn hear_again(&mut self, proxies: &dyn Proxies, now: Instant) {
        if !self.touched.is_empty() {
            return;
        }
        for place in std::mem::take(&mut self.put_off) {
            if let Some(text) = self.flights.standing(&place, self.number + 1) {
                self.blame(&place, self.number, &text, proxies, now);
            }
        }
    }

    /// Finds out who is to blame for the rejection of a resource as it was at a publish; whether
    /// somebody is.
    fn blame(
        &mut self,
        place: &Place,
        number: u64,
        text: &Arc<str>,
        proxies: &dyn Proxies,
        now: Instant,
    ) -> bool {
        if self.flights.is_dissent(place, proxies) {
            return false;
        }
        self.flights.ask(place, proxies);
        if number == self.number && self.leave_out_unknown(place, proxies) {
            return true;
        }
        let suspects = self.suspects(place, number, proxies);
        if suspects.is_empty() {
            if number == self.number && !self.is_inquired(place) {
                if self.flights.note_dissent(place, proxies) {
                    self.acquit(place);
                }
                error!(
                    fleet = &*place.0, resource = %place.1, %text,
                    "a proxy refused a resource and no object is to blame: it keeps what it has"
                );
                self.flights.set_unexplained(place);
            }
            return false;
        }
        let index = self.inquiry_about(&suspects, now);
        let Some(inquiry) = self.inquiries.get_mut(index) else {
            return false;
        };
        for suspect in &suspects {
            let text = words(place, text);
            inquiry.texts.insert(suspect.clone(), text);
        }
        self.touched.extend(suspects.iter().cloned());
        let culprits = inquiry.search.rejected(suspects);
        self.step(index, culprits);
        self.inquiries.retain(|it| !it.search.is_over());
        true
    }

    /// A proxy that has nothing of a resource rejects it without those too that are held for what it
    /// said of it: they are tried again, and it is for the others to say.
    fn acquit(&mut self, place: &Place) {
        let said = words(place, "");
        let contributors = self.synchronizer.contributors(place);
        for key in contributors.content.iter().chain(&contributors.frame) {
            let held = self.held.get(key);
            if held.is_some_and(|held| held.text.starts_with(&said)) {
                self.release(key);
            }
        }
    }

    /// Objects that put something into a resource that proxies have not accepted in it, in the order
    /// in which they are let in again.
    fn suspects(&mut self, place: &Place, number: u64, proxies: &dyn Proxies) -> Vec<Key> {
        let contributors = self.synchronizer.contributors(place);
        let accepted = self.flights.accepted(place);
        let has_some = proxies
            .possessions(&place.0, &place.1)
            .iter()
            .any(|has| has.accepted.is_some());
        let mut suspects: Vec<Key> = Vec::new();
        for part in [&contributors.content, &contributors.frame] {
            let candidates = part.iter().filter(|key| !self.is_waiting(key));
            suspects = candidates
                .filter(|key| {
                    self.opened(key).is_some_and(|open| {
                        let unknown = matches!(open.accepted, Accepted::Unknown);
                        open.since > accepted && open.since <= number && !(unknown && has_some)
                    })
                })
                .cloned()
                .collect();
            // The frame is to blame only if nothing that stands in it can be.
            if part.iter().any(|key| self.opened(key).is_some()) || number < self.number {
                break;
            }
        }
        suspects.sort_by_key(rank);
        for key in &suspects {
            self.take_up(key);
        }
        suspects
    }

    fn opened(&self, key: &Key) -> Option<&Open> {
        self.open.get(key).or_else(|| self.idle.get(key))
    }

    pub(super) fn is_waiting(&self, key: &Key) -> bool {
        let mut waiting = self.inquiries.iter().flat_map(|it| it.search.waiting());
        waiting.any(|other| other == key)
    }

    /// Whether somebody who put something into a resource is suspected.
    fn is_inquired(&self, place: &Place) -> bool {
        let contributors = self.synchronizer.contributors(place);
        let mut all = contributors.content.iter().chain(&contributors.frame);
        all.any(|key| self.is_questioned(key))
    }

    /// A suspect is open, and if nothing is known of it the proxies have nothing of it.
    fn take_up(&mut self, key: &Key) {
        if let Some(idle) = self.idle.remove(key) {
            self.open.insert(key.clone(), idle);
        }
        if let Some(open) = self.open.get_mut(key)
            && matches!(open.accepted, Accepted::Unknown)
        {
            open.accepted = Accepted::Known(Form::default());
        }
    }

    /// The inquiry that these suspects belong to; several become one.
    fn inquiry_about(&mut self, suspects: &[Key], now: Instant) -> usize {
        let concerned = |it: &Inquiry| it.search.trial().iter().any(|key| suspects.contains(key));
        let (mut about, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.inquiries)
            .into_iter()
            .partition(concerned);
        self.inquiries = others;
        let mut one = about
            .pop()
            .unwrap_or_else(|| Inquiry::new(Search::default(), now));
        for other in about {
            one.search.join(other.search);
            one.texts.extend(other.texts);
            one.closed.extend(other.closed);
        }
        self.inquiries.push(one);
        self.inquiries.len() - 1
    }

    /// The trial of an inquiry is over, and these are culprits: the next trial begins.
    pub(super) fn step(&mut self, index: usize, culprits: Vec<Key>) {
        let Some(inquiry) = self.inquiries.get_mut(index) else {
            return;
        };
        inquiry.number = 0;
        for key in inquiry.search.trial() {
            if let Some(open) = self.open.get_mut(key) {
                open.since = self.number + 1;
            }
        }
        self.touched.extend(inquiry.search.trial().iter().cloned());
        self.touched.extend(inquiry.search.waiting().cloned());
        self.news = true;
        let texts: Vec<_> = culprits
            .into_iter()
            .map(|key| {
                let text = inquiry.texts.get(&key).cloned().unwrap_or_default();
                (key, text)
            })
            .collect();
        for (key, text) in texts {
            self.hold(key, text);
        }
    }

    fn hold(&mut self, key: Key, text: String) {
        let Some(Open { accepted, .. }) = self.open.remove(&key) else {
            return;
        };
        warn!(
            object = %key, text,
            "proxies refuse an object: it is held until it changes, and everything else goes on"
        );
        let now = Form::of(&key, &self.truth);
        self.blamed.extend(blamed(&key, &now, &accepted, &text));
        let held = Held::new(&now, accepted, text, &self.fails_closed);
        self.touched.insert(key.clone());
        self.held.insert(key, held);
        self.news = true;
    }

    /// Looks whether trials have a verdict.
    fn judge(&mut self, proxies: &dyn Proxies, now: Instant) {
        for index in (0..self.inquiries.len()).rev() {
            let Some(inquiry) = self.inquiries.get(index).filter(|it| it.number > 0) else {
                continue;
            };
            let (number, since) = (inquiry.number, inquiry.since);
            let trial = inquiry.search.trial().to_vec();
            let all = trial
                .iter()
                .flat_map(|key| self.synchronizer.contributes_to(key));
            let places: BTreeSet<Place> = all.collect();
            let standing = places.iter().find_map(|place| {
                let text = self.flights.standing(place, number)?;
                Some((place.clone(), text))
            });
            if let Some((place, text)) = standing {
                if self.blame(&place, self.number, &text, proxies, now) {
                    return;
                }
                self.flights.set_unexplained(&place);
            }
            let late = now >= since + PATIENCE;
            if self.is_good(&places, number, late, proxies)
                && let Some(inquiry) = self.inquiries.get_mut(index)
            {
                let culprits = inquiry.search.accepted();
                self.step(index, culprits);
            }
        }
        self.inquiries.retain(|it| !it.search.is_over());
    }

    /// Whether proxies have accepted all places as they were at a publish. Where it takes too long,
    /// one of them is enough.
    fn is_good(
        &mut self,
        places: &BTreeSet<Place>,
        number: u64,
        late: bool,
        proxies: &dyn Proxies,
    ) -> bool {
        let mut asked = false;
        for place in places {
            if self.flights.is_unexplained(place) || !proxies.is_connected(&place.0) {
                continue;
            }
            asked = true;
            self.flights.ask(place, proxies);
            let good = self.flights.has_accepted(place, number)
                || (late && self.flights.is_accepted_by_one(place, number, proxies));
            if !good {
                return false;
            }
        }
        asked || places.is_empty() || places.iter().all(|it| self.flights.is_unexplained(it))
    }
}

/// What is said of a rejected resource.
fn words(place: &Place, text: &str) -> String {
    format!("{}: {text}", place.1)
}

/// The order in which suspects are let in. An object is judged only once those that it stands on are
/// in: a policy after its route, a route after its Gateway, its backends and its API.
fn rank(key: &Key) -> (u8, Key) {
    let rank = match key.kind.as_str() {
        "Gateway" => 0,
        "Secret" | "Service" | "Backend" => 1,
        "API" => 2,
        "Policy" => 4,
        _ => 3,
    };
    (rank, key.clone())
}

/// A swap is to blame if the module returns something else for the same object.
fn blamed(key: &Key, now: &Form, accepted: &Accepted, text: &str) -> Option<Blamed> {
    let Accepted::Known(before) = accepted else {
        return None;
    };
    before.documents()?;
    let module = &now.result.as_ref()?.module;
    let same_module = before
        .result
        .as_ref()
        .is_some_and(|it| it.module == *module);
    let same_object = match (&before.input, &now.input) {
        (Some(before), Some(now)) => before.same_content(now),
        _ => false,
    };
    (same_module && same_object).then(|| Blamed {
        object: key.clone(),
        module: module.clone(),
        text: text.to_owned(),
    })
}
