//! Who won and who lost where, so that status can say so.

use super::effects::Winners;
use super::followed;
use super::ids::{HostId, ListenerId};
use super::policies::Attached;
use crate::store::Key;
use std::collections::{BTreeMap, BTreeSet};

/// A place where effects and prefixes compete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arena {
    /// A listener of a Gateway, as a whole.
    Wide(ListenerId),
    /// A virtual host.
    Host(HostId),
}

/// An effect that does not hold somewhere because another one does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The policy that lost.
    pub loser: Key,
    /// Name of the effect.
    pub effect: &'static str,
    /// The policy that won.
    pub winner: Key,
}

/// What came out at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The Gateway.
    pub gateway: Option<Key>,
    /// Policies and the names of their effects that hold.
    pub wins: BTreeSet<(Key, &'static str)>,
    /// Effects that do not hold.
    pub losses: BTreeSet<Loss>,
    /// APIs that serve something.
    pub served: BTreeSet<Key>,
    /// APIs that lost a prefix: the prefix and the winner.
    pub displaced: BTreeSet<(Key, String, Key)>,
}

impl Outcome {
    /// An outcome at a listener of a Gateway.
    #[must_use]
    pub fn at(gateway: &Key) -> Self {
        Self {
            gateway: Some(gateway.clone()),
            ..Self::default()
        }
    }

    /// Notes an effect that holds.
    pub fn wins(&mut self, attached: &Attached) {
        self.wins.insert((attached.policy.clone(), attached.name()));
    }

    /// Notes an effect that lost. A policy does not lose against itself.
    pub fn defeats(&mut self, loser: &Attached, winner: &Attached) {
        if loser.policy != winner.policy {
            self.losses.insert(Loss {
                loser: loser.policy.clone(),
                effect: loser.name(),
                winner: winner.policy.clone(),
            });
        }
    }

    /// Names the final winners in all losses.
    pub fn rename_winners(&mut self, winners: &Winners) {
        let losses = std::mem::take(&mut self.losses);
        self.losses = losses
            .into_iter()
            .filter_map(|mut loss| {
                if let Some(winner) = winners.get(loss.effect) {
                    loss.winner = winner.policy.clone();
                }
                (loss.loser != loss.winner).then_some(loss)
            })
            .collect();
    }

    /// Names another winner in the losses against a policy.
    pub fn rename(&mut self, from: &Key, effect: &str, to: &Key) {
        let losses = std::mem::take(&mut self.losses);
        self.losses = losses
            .into_iter()
            .filter_map(|mut loss| {
                if loss.effect == effect && loss.winner == *from {
                    loss.winner = to.clone();
                }
                (loss.loser != loss.winner).then_some(loss)
            })
            .collect();
    }

    /// Adds what came out elsewhere at the same place.
    pub fn absorb(&mut self, mut other: Self) {
        self.wins.append(&mut other.wins);
        self.losses.append(&mut other.losses);
    }

    fn objects(&self) -> BTreeSet<Key> {
        let wins = self.wins.iter().map(|(policy, _)| policy);
        let losses = self.losses.iter().map(|loss| &loss.loser);
        let displaced = self.displaced.iter().map(|(api, ..)| api);
        wins.chain(losses)
            .chain(&self.served)
            .chain(displaced)
            .cloned()
            .collect()
    }
}

/// All outcomes, and where each object has one.
#[derive(Debug, Default)]
pub struct Outcomes {
    outcomes: BTreeMap<Arena, Outcome>,
    by_object: BTreeMap<Key, BTreeSet<Arena>>,
}

impl Outcomes {
    /// Replaces or removes the outcome at a place and returns the objects it is about or was. One that
    /// is about no object is none.
    pub fn set(&mut self, arena: &Arena, new: Option<Outcome>) -> BTreeSet<Key> {
        let new = new.filter(|new| !new.objects().is_empty());
        if self.outcomes.get(arena) == new.as_ref() {
            return BTreeSet::new();
        }
        let mut touched = BTreeSet::new();
        if let Some(old) = self.outcomes.remove(arena) {
            touched = old.objects();
            for object in &touched {
                followed::remove(&mut self.by_object, object, arena);
            }
        }
        if let Some(new) = new {
            for object in new.objects() {
                self.by_object
                    .entry(object.clone())
                    .or_default()
                    .insert(arena.clone());
                touched.insert(object);
            }
            self.outcomes.insert(arena.clone(), new);
        }
        touched
    }

    /// What came out at a place, if it is about any object.
    #[must_use]
    pub fn at(&self, arena: &Arena) -> Option<&Outcome> {
        self.outcomes.get(arena)
    }

    /// The places where an object won or lost something.
    pub fn of(&self, object: &Key) -> impl Iterator<Item = (&Arena, &Outcome)> {
        self.by_object
            .get(object)
            .into_iter()
            .flatten()
            .filter_map(|arena| Some((arena, self.outcomes.get(arena)?)))
    }
}
