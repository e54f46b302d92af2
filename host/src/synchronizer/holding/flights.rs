//! Published versions that not all proxies have accepted yet.
//!
//! Every publish has a number. A resource is *in flight* from the publish that changed it until all
//! proxies have accepted its newest version; of the versions in between it is known which publish
//! they are of, because a verdict may come when another version is on its way already.
//!
//! A proxy that comes when a resource is accepted, and rejects it, *dissents*: it has none of it, so
//! what it says of later versions is no verdict on what changed in them. It is heard again once it has
//! accepted one.

use super::Proxies;
use crate::synchronizer::Delta;
use chiton_xds::{Change, Possession, ResourceName, ResourceType};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Versions of one resource that are remembered.
const MAX_VERSIONS: usize = 64;

/// A resource of a fleet.
pub type Place = (Arc<str>, ResourceName);

/// One resource in flight.
#[derive(Debug, Default)]
struct Flight {
    /// Publishes and versions, oldest first.
    published: VecDeque<(u64, String)>,
    /// All proxies have accepted what was published up to here.
    accepted: u64,
    /// Versions that proxies rejected, and what was said. One that is published again is not sent
    /// again to a proxy that was sent nothing in between.
    rejected: BTreeMap<String, Arc<str>>,
    /// Nobody is to blame for it.
    unexplained: bool,
}

impl Flight {
    fn publish(&mut self, number: u64, version: &str) {
        if self.published.len() == MAX_VERSIONS {
            self.published.pop_front();
        }
        self.published.push_back((number, version.to_owned()));
        self.unexplained = false;
    }

    fn reject(&mut self, version: &str, text: &Arc<str>) {
        if self.rejected.len() == MAX_VERSIONS {
            self.rejected.clear();
        }
        let words = self.rejected.entry(version.to_owned());
        words.or_insert_with(|| text.clone());
    }

    /// What was said of the newest version, if it was rejected.
    fn rejection(&self) -> Option<&Arc<str>> {
        self.rejected.get(&self.newest()?.1)
    }

    fn newest(&self) -> Option<&(u64, String)> {
        self.published.back()
    }

    /// The newest publish that a proxy has certainly accepted.
    fn accepted_by(&self, has: &Possession) -> u64 {
        let Some(accepted) = &has.accepted else {
            return 0;
        };
        if let Some((number, newest)) = self.newest()
            && **newest == **accepted
            && has.sent == *accepted
        {
            return *number;
        }
        // A version that was published twice may be the first of the two; one that is not known was
        // published before the resource was in flight.
        let mut published = self.published.iter();
        let found = published.find(|(_, version)| **version == **accepted);
        let oldest = self.published.front().map_or(0, |(number, _)| number - 1);
        found.map_or(oldest, |(number, _)| *number)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Flights {
    fleets: BTreeMap<Arc<str>, BTreeMap<ResourceName, Flight>>,
    /// Resources that proxies dissent from.
    dissent: BTreeSet<Place>,
    /// Where the next look begins.
    cursor: Option<Place>,
}

impl Flights {
    /// Notes a publish and returns resources that are again what proxies have rejected before.
    /// Endpoints are nobody's fault and are not followed.
    pub fn publish(&mut self, number: u64, delta: &Delta) -> Vec<Place> {
        let mut rejected = Vec::new();
        for (fleet, changes) in &delta.resources {
            for change in changes {
                match change {
                    Change::Remove(name) => {
                        self.remove(fleet, name);
                        self.dissent.remove(&(fleet.as_str().into(), name.clone()));
                    }
                    Change::Put(resource) if resource.name.kind != ResourceType::Endpoints => {
                        let name = &resource.name;
                        let flights = self.fleets.entry(fleet.as_str().into()).or_default();
                        let flight = flights.entry(name.clone()).or_default();
                        flight.publish(number, &resource.version);
                        if flight.rejection().is_some() {
                            rejected.push((fleet.as_str().into(), name.clone()));
                        }
                    }
                    Change::Put(_) => {}
                }
            }
        }
        rejected
    }

    /// Asks the proxies about some resources in flight, and about all of fleets that have accepted
    /// everything.
    pub fn look(&mut self, proxies: &dyn Proxies, most: usize) {
        self.fleets.retain(|fleet, _| !proxies.is_settled(fleet));
        self.dissent.retain(|(fleet, _)| !proxies.is_settled(fleet));
        for place in self.next_places(most) {
            self.ask(&place, proxies);
        }
    }

    fn next_places(&mut self, most: usize) -> Vec<Place> {
        let mut places = Vec::new();
        let from = self.cursor.take();
        for (fleet, flights) in &self.fleets {
            let first = match &from {
                Some((at, _)) if fleet < at => continue,
                Some((at, name)) if fleet == at => Bound::Excluded(name),
                _ => Bound::Unbounded,
            };
            let rest = flights
                .range((first, Bound::Unbounded))
                .take(most - places.len());
            places.extend(rest.map(|(name, _)| (fleet.clone(), name.clone())));
        }
        if places.len() == most {
            self.cursor = places.last().cloned();
        }
        places
    }

    /// Asks the proxies about a resource.
    pub fn ask(&mut self, place: &Place, proxies: &dyn Proxies) {
        let dissents = self.dissent.contains(place);
        let Some(flight) = self.get_mut(place) else {
            return;
        };
        let possessions = proxies.possessions(&place.0, &place.1);
        let counted = possessions.iter().filter(|has| has.synced);
        let counted = counted.filter(|has| !(dissents && has_none(has)));
        let Some(accepted) = counted.map(|has| flight.accepted_by(has)).min() else {
            return;
        };
        flight.accepted = flight.accepted.max(accepted);
        if flight
            .newest()
            .is_some_and(|(number, _)| *number <= flight.accepted)
        {
            self.remove(&place.0, &place.1);
        }
    }

    /// Notes that proxies reject a resource of which they have nothing and others have accepted a
    /// form. Whether that is so.
    pub fn note_dissent(&mut self, place: &Place, proxies: &dyn Proxies) -> bool {
        let possessions = proxies.possessions(&place.0, &place.1);
        let is_accepted = possessions.iter().any(|has| has.accepted.is_some());
        let mut rejecting = possessions.iter().filter(|has| has.rejected).peekable();
        let dissents = is_accepted && rejecting.peek().is_some() && rejecting.all(has_none);
        if dissents {
            self.dissent.insert(place.clone());
        }
        dissents
    }

    /// Whether all proxies that reject a resource now dissent from it.
    #[must_use]
    pub fn is_dissent(&self, place: &Place, proxies: &dyn Proxies) -> bool {
        self.dissent.contains(place) && {
            let possessions = proxies.possessions(&place.0, &place.1);
            let mut rejecting = possessions.iter().filter(|has| has.rejected);
            rejecting.all(has_none)
        }
    }

    /// Up to which publish the proxies have accepted a resource; what is not in flight they have
    /// accepted.
    #[must_use]
    pub fn accepted(&self, place: &Place) -> u64 {
        self.get(place).map_or(u64::MAX, |it| it.accepted)
    }

    /// Whether the proxies have accepted what a resource was at a publish, or is since before it.
    #[must_use]
    pub fn has_accepted(&self, place: &Place, number: u64) -> bool {
        let Some(flight) = self.get(place) else {
            return true;
        };
        let newest = flight.newest().map_or(0, |(newest, _)| *newest);
        flight.accepted >= number.min(newest)
    }

    /// As [`Flights::has_accepted`], but one proxy is enough.
    #[must_use]
    pub fn is_accepted_by_one(&self, place: &Place, number: u64, proxies: &dyn Proxies) -> bool {
        let Some(flight) = self.get(place) else {
            return true;
        };
        let newest = flight.newest().map_or(0, |(newest, _)| *newest);
        let possessions = proxies.possessions(&place.0, &place.1);
        let mut accepted = possessions.iter().map(|has| flight.accepted_by(has));
        accepted.any(|accepted| accepted >= number.min(newest))
    }

    /// The publish of a version, if it is known.
    #[must_use]
    pub fn published(&self, place: &Place, version: &str) -> Option<u64> {
        let mut published = self.get(place)?.published.iter().rev();
        let found = published.find(|(_, known)| known == version);
        found.map(|(number, _)| *number)
    }

    /// Notes that a proxy rejected a version. Whether that is the newest one.
    pub fn reject(&mut self, place: &Place, version: &str, text: &Arc<str>) -> bool {
        let Some(flight) = self.get_mut(place) else {
            return false;
        };
        let is_newest = flight.newest().is_some_and(|(_, newest)| newest == version);
        flight.reject(version, text);
        is_newest
    }

    /// Nobody is to blame for the rejection of what a resource is now.
    pub fn set_unexplained(&mut self, place: &Place) {
        if let Some(flight) = self.get_mut(place) {
            flight.unexplained = true;
        }
    }

    /// Whether the newest version is rejected and nobody is to blame.
    #[must_use]
    pub fn is_unexplained(&self, place: &Place) -> bool {
        self.get(place).is_some_and(|it| it.unexplained)
    }

    /// The words with which the newest version of a resource was rejected, if it was published
    /// before this publish and somebody may be to blame.
    #[must_use]
    pub fn standing(&self, place: &Place, before: u64) -> Option<Arc<str>> {
        let flight = self.get(place).filter(|it| !it.unexplained)?;
        flight.newest().filter(|(number, _)| *number < before)?;
        flight.rejection().cloned()
    }

    /// Whether a resource is in flight.
    #[must_use]
    pub fn contains(&self, place: &Place) -> bool {
        self.get(place).is_some()
    }

    /// Whether everything is accepted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fleets.is_empty()
    }

    fn get(&self, (fleet, name): &Place) -> Option<&Flight> {
        self.fleets.get(fleet)?.get(name)
    }

    fn get_mut(&mut self, (fleet, name): &Place) -> Option<&mut Flight> {
        self.fleets.get_mut(fleet)?.get_mut(name)
    }

    fn remove(&mut self, fleet: &str, name: &ResourceName) {
        if let Some(flights) = self.fleets.get_mut(fleet) {
            flights.remove(name);
            if flights.is_empty() {
                self.fleets.remove(fleet);
            }
        }
    }
}

/// Whether a proxy has accepted no form of what it rejects.
fn has_none(has: &Possession) -> bool {
    has.rejected && has.accepted.is_none()
}
