//! Undoing a swap: what the trial could not see, because proxies alone say it.

use super::registry::Registry;
use super::saved::{Entry, SavedModule, TakenBack};
use super::slots::{Live, Offered};
use super::{ModuleInfo, ModuleState};
use crate::store::Key;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after a swap it can be undone. A proxy answers within seconds; what it refuses much later
/// has another cause.
const WINDOW: Duration = Duration::from_mins(1);

/// What was live before a swap.
#[derive(Clone, Debug)]
pub(super) struct Predecessor {
    /// None: the built-in reconciler.
    live: Option<Live>,
    /// As it was saved.
    saved: Option<(SavedModule, Arc<[u8]>)>,
    /// When it was replaced.
    replaced: Instant,
}

impl Registry {
    /// What is live under a name, to be kept while it is replaced.
    pub(super) fn predecessor(&self, name: &str) -> Predecessor {
        let slot = self.slots().named.get(name).cloned();
        let saved = slot.as_ref().zip(self.saved.as_ref());
        let saved = saved.and_then(|(slot, saved)| {
            let module = saved.entry(name, &slot.source)?.live?;
            let bytes = saved.bytes(&module).ok()?;
            Some((module, bytes.into()))
        });
        Predecessor {
            live: slot.and_then(|slot| slot.live),
            saved,
            replaced: Instant::now(),
        }
    }

    /// Puts the version in charge again that was live before the last swap, if that was a moment ago,
    /// and refuses the one that replaced it. Whether it did. It writes to the disk.
    pub fn roll_back(&self, name: &str, reason: &str) -> bool {
        let mut slots = self.slots();
        let Some(slot) = slots.named.get_mut(name) else {
            return false;
        };
        let source = slot.source.clone();
        let fits = |it: &mut Predecessor| {
            let same_source = |live: &Live| live.source == source;
            it.replaced.elapsed() < WINDOW && it.live.as_ref().is_none_or(same_source)
        };
        let Some(before) = slot.predecessor.take_if(fits) else {
            return false;
        };
        let Some(refused) = std::mem::replace(&mut slot.live, before.live.clone()) else {
            return false;
        };
        let reason = format!("it was live and was taken back: {reason}");
        tracing::warn!(
            module = name,
            version = refused.module.version,
            reason,
            "module taken back; what was live before is live again"
        );
        slot.offered = Some(Offered {
            fingerprint: refused.fingerprint.clone(),
            version: refused.module.version.clone(),
            digest: refused.module.digest.clone(),
            failure_policy: refused.module.failure_policy,
            state: ModuleState::Refused,
            reason: reason.clone(),
            preparation: None,
            candidate: None,
        });
        if let Some(live) = &before.live {
            let shown = |it: &ModuleInfo| it.name == name && it.digest == live.module.digest;
            slots.retired.retain(|it| !shown(it));
        }
        drop(slots);
        self.publish();
        let taken_back = TakenBack {
            fingerprint: refused.fingerprint,
            reason,
        };
        self.save_again(name, &source, before.saved, taken_back);
        true
    }

    fn save_again(
        &self,
        name: &str,
        source: &Key,
        before: Option<(SavedModule, Arc<[u8]>)>,
        after: TakenBack,
    ) {
        let Some(saved) = &self.saved else {
            return;
        };
        let (live, bytes) = before.unzip();
        let entry = Entry {
            source: source.to_ref(),
            live,
            taken_back: Some(after),
        };
        if let Err(error) = saved.save(name, entry, &bytes.unwrap_or_default()) {
            tracing::warn!(module = name, %error, "what is live again could not be saved: after a restart the version that was taken back is tried again");
        }
    }
}
