//! What is live, what is offered and what was, by name.

use super::builtin::Builtin;
use super::candidate::Candidate;
use super::info::{self, ModuleInfo, ModuleState};
use super::offer::Offer;
use super::preparation::Preparation;
use super::roll_back::Predecessor;
use super::{FailurePolicy, LiveModule, Manifest, Modules};
use crate::store::Key;
use chiton_ir::GroupKind;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Retired versions that are still shown.
const SHOWN_RETIRED: usize = 16;

/// A version from a `ConfigMap` that owns objects.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub module: Arc<LiveModule>,
    /// The `ConfigMap`.
    pub source: Key,
    pub fingerprint: String,
    pub since: String,
}

/// A version that does not own objects, or not yet.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub fingerprint: String,
    pub version: String,
    pub digest: String,
    pub failure_policy: FailurePolicy,
    pub state: ModuleState,
    pub reason: String,
    /// While it is fetched and compiled.
    pub preparation: Option<Preparation>,
    /// What waits for its trial.
    pub candidate: Option<Candidate>,
}

impl Offered {
    pub(super) fn new(offer: &Offer) -> Self {
        let manifest = offer.manifest.as_ref().ok();
        Self {
            fingerprint: offer.fingerprint.clone(),
            version: manifest.map(|it| it.version.clone()).unwrap_or_default(),
            digest: manifest
                .and_then(|it| it.sha256.clone())
                .unwrap_or_default(),
            failure_policy: Manifest::failure_policy_in(&offer.text),
            state: ModuleState::Fetched,
            reason: String::new(),
            preparation: None,
            candidate: None,
        }
    }
}

/// One name.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The `ConfigMap` whose version is live or offered.
    pub source: Key,
    pub live: Option<Live>,
    /// Whether what is live is offered by nobody any more. It goes on until those that offer the
    /// name have been considered.
    pub orphaned: bool,
    /// What was live before, as long as it can be live again.
    pub predecessor: Option<Predecessor>,
    pub offered: Option<Offered>,
    /// Offers of others that were refused when it was their turn, or are not ready yet.
    refused: BTreeMap<Key, Offered>,
}

impl Slot {
    pub(super) fn new(first: &Offer) -> Self {
        Self {
            source: first.source.clone(),
            live: None,
            orphaned: false,
            predecessor: None,
            offered: Some(Offered::new(first)),
            refused: BTreeMap::new(),
        }
    }

    /// Whether what is offered is being fetched or compiled.
    pub(super) fn is_preparing(&self) -> bool {
        let offered = self.offered.as_ref();
        offered.is_some_and(|it| it.preparation.is_some())
    }

    /// What holds for policies of the name while nothing is live: closed, if anybody asks for that.
    fn failure_policy(&self, offered: &Offered) -> FailurePolicy {
        let mut refused = self.refused.values();
        if refused.any(|it| it.failure_policy == FailurePolicy::FailClosed) {
            FailurePolicy::FailClosed
        } else {
            offered.failure_policy
        }
    }
}

/// All names.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub builtins: BTreeMap<String, Builtin>,
    /// Since when the built-in modules are live.
    pub since: String,
    pub named: BTreeMap<String, Slot>,
    /// Offers of a name that another `ConfigMap` has.
    pub doubles: Vec<ModuleInfo>,
    pub retired: VecDeque<ModuleInfo>,
}

impl Slots {
    /// What owns a name's objects now.
    pub(super) fn live(&self, name: &str) -> Option<&Arc<LiveModule>> {
        let slot = self.named.get(name).and_then(|slot| slot.live.as_ref());
        match slot {
            Some(live) => Some(&live.module),
            None => self.builtins.get(name).map(|builtin| &builtin.module),
        }
    }

    /// What a candidate is tried beside: what owns the name's objects now, unless its `ConfigMap`
    /// is gone.
    pub(super) fn predecessor(&self, name: &str) -> Option<&Arc<LiveModule>> {
        if self.named.get(name).is_some_and(|slot| slot.orphaned) {
            self.builtins.get(name).map(|builtin| &builtin.module)
        } else {
            self.live(name)
        }
    }

    /// The other live module that handles a kind, if there is one.
    pub(super) fn rival(&self, name: &str, kinds: &[GroupKind]) -> Option<(String, GroupKind)> {
        let rivals = self.names().into_iter().filter(|other| other != name);
        rivals
            .filter_map(|other| self.live(&other).cloned())
            .find_map(|module| {
                let kind = kinds
                    .iter()
                    .find(|kind| module.handles.contains(kind) && !super::live::is_policy(kind))?;
                Some((module.name.clone(), kind.clone()))
            })
    }

    /// Puts a version in charge.
    pub(super) fn go_live(&mut self, name: &str, module: Arc<LiveModule>, fingerprint: String) {
        let Some(slot) = self.named.get_mut(name) else {
            return;
        };
        slot.offered = None;
        slot.orphaned = false;
        let reason = format!("replaced by version {}", module.version);
        let before = slot.live.replace(Live {
            module,
            source: slot.source.clone(),
            fingerprint,
            since: info::now(),
        });
        if let Some(before) = before {
            self.retire(&before, &reason);
        }
    }

    /// Notes which live versions are offered by nobody any more, and lets go of names that nobody
    /// offers.
    pub(super) fn retain(
        &mut self,
        is_named: impl Fn(&str) -> bool,
        is_offered: impl Fn(&str, &Key) -> bool,
    ) {
        for (name, slot) in &mut self.named {
            let live = slot.live.as_ref();
            slot.orphaned = live.is_some_and(|live| !is_offered(name, &live.source));
            slot.refused.retain(|source, _| is_offered(name, source));
        }
        let gone: Vec<String> = self
            .named
            .keys()
            .filter(|name| !is_named(name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(slot) = self.named.remove(&name) {
                self.orphan(&name, slot.live, &slot.source);
            }
        }
        self.doubles.clear();
    }

    /// Retires what is live and offered by nobody, of names of which others have had their turn.
    pub(super) fn let_go(&mut self) {
        let orphans: Vec<_> = self
            .named
            .iter_mut()
            .filter(|(_, slot)| slot.orphaned && !slot.is_preparing())
            .map(|(name, slot)| {
                slot.orphaned = false;
                (name.clone(), slot.live.take(), slot.source.clone())
            })
            .collect();
        for (name, live, source) in orphans {
            self.orphan(&name, live, &source);
        }
    }

    fn orphan(&mut self, name: &str, live: Option<Live>, source: &Key) {
        if let Some(live) = live {
            tracing::info!(module = name, source = %live.source, "module retired: its ConfigMap is gone");
            self.retire(&live, "its ConfigMap is gone");
        } else {
            tracing::debug!(module = name, %source, "an offer is gone");
        }
    }

    /// Gives an offer its turn: what is known of the one before is put aside.
    pub(super) fn turn(&mut self, offer: &Offer) {
        let Some(slot) = self.named.get_mut(&offer.name) else {
            return;
        };
        if slot.source != offer.source {
            let aside = slot.offered.take();
            if let Some(aside) = aside.filter(Offered::is_known) {
                slot.refused.insert(slot.source.clone(), aside);
            }
            slot.source = offer.source.clone();
            slot.offered = slot.refused.remove(&offer.source);
        }
        if slot.live.is_none() || slot.orphaned {
            slot.offered.get_or_insert_with(|| Offered::new(offer));
        }
    }

    /// Whether an offer's `ConfigMap` has its name now: it is live, or waits for its trial.
    pub(super) fn has_taken(&self, offer: &Offer) -> bool {
        self.named.get(&offer.name).is_some_and(|slot| {
            let waits = slot
                .offered
                .as_ref()
                .is_some_and(|it| it.candidate.is_some());
            slot.source == offer.source && (waits || slot.live.is_some() && !slot.orphaned)
        })
    }

    /// Says of those that offer a name and do not have it why.
    pub(super) fn note_doubles(&mut self, name: &str, offers: &[Offer], winner: Option<&Key>) {
        let Some(slot) = self.named.get(name) else {
            return;
        };
        for offer in offers.iter().filter(|offer| offer.source != slot.source) {
            let source = offer.source.to_string();
            let refused = slot.refused.get(&offer.source);
            let refused = refused.filter(|it| it.fingerprint == offer.fingerprint);
            let shown = match (refused, winner) {
                (Some(refused), _) => refused.describe(name, &source),
                (None, Some(winner)) => ModuleInfo::offered(
                    name,
                    &source,
                    ModuleState::Refused,
                    &format!(
                        "the module {name} is that of {winner}, which is live: rename one, or \
                         remove one"
                    ),
                ),
                (None, None) => continue,
            };
            self.doubles.push(shown);
        }
    }

    fn retire(&mut self, live: &Live, reason: &str) {
        let mut shown = describe(&live.module, &live.source.to_string(), &live.since);
        shown.state = ModuleState::Retired;
        reason.clone_into(&mut shown.reason);
        self.retired.push_front(shown);
        self.retired.truncate(SHOWN_RETIRED);
    }

    /// Names of which nothing is live or refused yet.
    pub(super) fn loading(&self) -> Vec<String> {
        let refused = |slot: &Slot| match &slot.offered {
            Some(offered) => offered.state == ModuleState::Refused,
            None => true,
        };
        let loading = self
            .named
            .iter()
            .filter(|(name, slot)| !refused(slot) && self.live(name).is_none());
        loading.map(|(name, _)| name.clone()).collect()
    }

    /// The set for the pipeline.
    pub(super) fn modules(&self) -> Modules {
        let live = self
            .names()
            .into_iter()
            .filter_map(|name| self.live(&name).cloned());
        let mut modules = Modules::new(live);
        for (name, slot) in &self.named {
            if let Some(offered) = &slot.offered
                && self.live(name).is_none()
            {
                let reason = if offered.state == ModuleState::Refused {
                    format!("the module `{name}` is refused: {}", offered.reason)
                } else {
                    format!("the module `{name}` is being loaded")
                };
                modules.add_refused(name, slot.failure_policy(offered), &reason);
            }
        }
        modules
    }

    /// All that can be shown: live, then offered, then retired, each by name.
    pub(super) fn list(&self) -> Vec<ModuleInfo> {
        let builtins = self
            .builtins
            .iter()
            .filter(|(name, _)| self.named.get(*name).is_none_or(|slot| slot.live.is_none()))
            .map(|(_, builtin)| describe(&builtin.module, &builtin.source, &self.since));
        let live = self.named.values().filter_map(|slot| {
            let live = slot.live.as_ref()?;
            Some(describe(
                &live.module,
                &live.source.to_string(),
                &live.since,
            ))
        });
        let offered = self.named.iter().filter_map(|(name, slot)| {
            let offered = slot.offered.as_ref()?;
            Some(offered.describe(name, &slot.source.to_string()))
        });
        let mut shown: Vec<ModuleInfo> = builtins
            .chain(live)
            .chain(offered)
            .chain(self.doubles.iter().cloned())
            .collect();
        shown.sort_by(|a, b| (&a.name, b.state, &a.source).cmp(&(&b.name, a.state, &b.source)));
        shown.extend(self.retired.iter().cloned());
        shown
    }

    fn names(&self) -> BTreeSet<String> {
        self.builtins
            .keys()
            .chain(self.named.keys())
            .cloned()
            .collect()
    }
}

impl Offered {
    /// Whether there is something about it that took time to find out, or takes it.
    fn is_known(&self) -> bool {
        self.state == ModuleState::Refused || self.preparation.is_some() || self.candidate.is_some()
    }

    fn describe(&self, name: &str, source: &str) -> ModuleInfo {
        let (state, digest) = match &self.preparation {
            Some(preparation) => preparation.state(),
            None => (self.state, self.digest.clone()),
        };
        let shown = ModuleInfo {
            version: self.version.clone(),
            digest,
            ..ModuleInfo::offered(name, source, state, &self.reason)
        };
        match &self.candidate {
            Some(candidate) => shown.with_role(candidate.module.role),
            None => shown,
        }
    }
}

fn describe(module: &LiveModule, source: &str, since: &str) -> ModuleInfo {
    ModuleInfo {
        version: module.version.clone(),
        digest: module.digest.clone(),
        reconciles: module.reconciles(),
        failures: module.failures(),
        live_since: Some(since.to_owned()),
        ..ModuleInfo::offered(&module.name, source, ModuleState::Live, "")
    }
    .with_role(module.role)
}
