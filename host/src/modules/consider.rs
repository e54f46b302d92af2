//! What happens to one offer: the steps from *fetched* to *live*, or a refusal.

use super::candidate::{self, Candidate};
use super::offer::Offer;
use super::preparation::Preparation;
use super::registry::Registry;
use super::saved::{Entry, SavedModule};
use super::slots::Offered;
use super::{LiveModule, Manifest, ModuleState};
use crate::pipeline::{self, World};
use std::sync::Arc;

/// Objects named in the reason of a refusal.
const SHOWN_OBJECTS: usize = 3;

impl Registry {
    /// Takes an offer as far as it gets.
    pub(super) fn consider(&self, offer: &Offer, world: &World) {
        if self.is_settled(offer) {
            return;
        }
        let under_way = self.preparation(offer);
        if under_way.is_none() && self.restore(offer) {
            return;
        }
        let candidate = match (self.waiting(offer), under_way) {
            (Some(candidate), _) => Ok(candidate),
            (None, None) => return self.prepare(offer),
            (None, Some(preparation)) => match preparation.result() {
                Some(result) => result.and_then(|candidate| self.admit(offer, candidate)),
                None => return,
            },
        };
        let result = candidate.and_then(|candidate| self.judge(offer, candidate, world));
        if let Err(reason) = result {
            self.refuse(offer, reason);
        }
    }

    /// Whether nothing is left to do: the offer is live, or was refused as it is.
    fn is_settled(&self, offer: &Offer) -> bool {
        let mut slots = self.slots();
        let Some(slot) = slots.named.get_mut(&offer.name) else {
            return true;
        };
        let is = |fingerprint: &String| *fingerprint == offer.fingerprint && !slot.orphaned;
        if slot.live.as_ref().is_some_and(|live| is(&live.fingerprint)) {
            slot.offered = None;
            return true;
        }
        slot.offered
            .as_ref()
            .is_some_and(|it| is(&it.fingerprint) && it.state == ModuleState::Refused)
    }

    /// Puts in charge what was live before a restart, and refuses again what was taken back. Whether
    /// that settles the offer.
    fn restore(&self, offer: &Offer) -> bool {
        let slot = self.slots().named.get(&offer.name).cloned();
        let Some(slot) = slot.filter(|slot| slot.live.is_none()) else {
            return false;
        };
        let saved = self.saved.as_ref();
        let Some(entry) = saved.and_then(|it| it.entry(&offer.name, &offer.source)) else {
            return false;
        };
        if let Some(module) = &entry.live {
            if let Err(reason) = self.live_again(offer, module) {
                tracing::warn!(
                    module = offer.name,
                    reason,
                    "what was live before the restart cannot be used"
                );
                return false;
            }
            if module.fingerprint == offer.fingerprint {
                return true;
            }
            let before = slot.offered.unwrap_or_else(|| Offered::new(offer));
            self.set_offered(offer, |slot| *slot = before);
        }
        match entry.taken_back {
            Some(it) if it.fingerprint == offer.fingerprint => {
                self.refuse(offer, it.reason);
                true
            }
            _ => false,
        }
    }

    /// Puts a saved module in charge.
    fn live_again(&self, offer: &Offer, saved: &SavedModule) -> Result<(), String> {
        let folder = self.saved.as_ref().ok_or("nothing is saved")?;
        let bytes = folder.bytes(saved).map_err(|error| error.to_string())?;
        let manifest = Manifest::parse(&saved.manifest)?;
        let role = self.role(&offer.name);
        let candidate = candidate::compile(&self.engine, &manifest, bytes, role)?;
        tracing::info!(
            module = offer.name,
            version = candidate.module.version,
            "module live again after a restart"
        );
        self.slots()
            .go_live(&offer.name, candidate.module, saved.fingerprint.clone());
        Ok(())
    }

    /// The candidate that waits for its trial, if it is of this offer.
    fn waiting(&self, offer: &Offer) -> Option<Candidate> {
        let slots = self.slots();
        let offered = slots.named.get(&offer.name)?.offered.as_ref()?;
        offered
            .candidate
            .clone()
            .filter(|_| offered.fingerprint == offer.fingerprint)
    }

    /// The preparation of this offer that is under way or has ended.
    pub(super) fn preparation(&self, offer: &Offer) -> Option<Preparation> {
        let slots = self.slots();
        let slot = slots.named.get(&offer.name)?;
        let offered = slot
            .offered
            .as_ref()
            .filter(|_| slot.source == offer.source)?;
        let is_of_it = offered.fingerprint == offer.fingerprint;
        offered.preparation.clone().filter(|_| is_of_it)
    }

    /// Begins to fetch and compile an offer.
    fn prepare(&self, offer: &Offer) {
        let role = self.role(&offer.name);
        let preparation = Preparation::start(&self.engine, offer, role, &self.bell);
        self.set_offered(offer, |slot| {
            *slot = Offered {
                preparation: Some(preparation),
                ..Offered::new(offer)
            };
        });
    }

    /// Notes that an offer is compiled.
    fn admit(&self, offer: &Offer, candidate: Candidate) -> Result<Candidate, String> {
        if let Some((rival, kind)) = self.slots().rival(&offer.name, &candidate.module.handles) {
            return Err(format!(
                "{kind} is handled by the module `{rival}` already: use that name to replace it"
            ));
        }
        self.set_offered(offer, |slot| {
            slot.state = ModuleState::Compiled;
            slot.preparation = None;
            slot.digest.clone_from(&candidate.module.digest);
            "waits for the first epoch, to be tried on its objects".clone_into(&mut slot.reason);
            slot.candidate = Some(candidate.clone());
        });
        Ok(candidate)
    }

    /// Tries a candidate beside what is live, and puts it in charge unless it does worse.
    fn judge(&self, offer: &Offer, candidate: Candidate, world: &World) -> Result<(), String> {
        let before = self.slots().predecessor(&offer.name).cloned();
        if before.is_some() {
            if world.epoch == 0 {
                return Ok(());
            }
            try_on(world, &candidate.module)?;
        }
        self.set_offered(offer, |slot| slot.state = ModuleState::Tried);
        tracing::info!(
            module = offer.name,
            version = candidate.module.version,
            digest = candidate.module.digest,
            source = %offer.source,
            "module goes live"
        );
        let predecessor = before.map(|_| self.predecessor(&offer.name));
        self.save(offer, &candidate);
        let mut slots = self.slots();
        slots.go_live(&offer.name, candidate.module, offer.fingerprint.clone());
        if let Some(slot) = slots.named.get_mut(&offer.name) {
            slot.predecessor = predecessor;
        }
        Ok(())
    }

    fn save(&self, offer: &Offer, candidate: &Candidate) {
        let Some(saved) = &self.saved else {
            return;
        };
        let entry = Entry {
            source: offer.source.to_ref(),
            live: Some(SavedModule {
                fingerprint: offer.fingerprint.clone(),
                manifest: offer.text.clone(),
                digest: candidate.module.digest.clone(),
            }),
            taken_back: None,
        };
        if let Err(error) = saved.save(&offer.name, entry, &candidate.bytes) {
            tracing::warn!(module = offer.name, %error, "the live module could not be saved: after a restart it is only in its ConfigMap");
        }
    }

    fn refuse(&self, offer: &Offer, reason: String) {
        tracing::warn!(module = offer.name, source = %offer.source, reason, "module refused; what was live before goes on");
        self.set_offered(offer, |slot| {
            slot.state = ModuleState::Refused;
            slot.preparation = None;
            slot.candidate = None;
            slot.reason = reason;
        });
    }

    fn set_offered(&self, offer: &Offer, change: impl FnOnce(&mut Offered)) {
        if let Some(slot) = self.slots().named.get_mut(&offer.name) {
            change(slot.offered.get_or_insert_with(|| Offered::new(offer)));
        }
    }

    /// The role that a module of this name must have: that of the built-in one.
    fn role(&self, name: &str) -> Option<crate::sandbox::Role> {
        let slots = self.slots();
        slots.builtins.get(name).map(|builtin| builtin.module.role)
    }
}

/// Runs a candidate on all that it would own.
fn try_on(world: &World, candidate: &Arc<LiveModule>) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tried = pipeline::trial(world, candidate, pipeline::now(), threads);
    let worse: Vec<String> = tried.iter().filter_map(pipeline::Tried::worse).collect();
    if worse.is_empty() {
        return Ok(());
    }
    let mut shown = worse[..worse.len().min(SHOWN_OBJECTS)].join("; ");
    if worse.len() > SHOWN_OBJECTS {
        shown = format!("{shown}; and {} more", worse.len() - SHOWN_OBJECTS);
    }
    Err(format!(
        "in its trial on {} objects it did worse than what is live on {}: {shown}",
        tried.len(),
        worse.len()
    ))
}
