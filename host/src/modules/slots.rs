//! What is live, what is offered and what was, by name.

use super::builtin::Builtin;
use super::candidate::Candidate;
use super::info::{self, ModuleInfo, ModuleState};
use super::offer::Offer;
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
            candidate: None,
        }
    }
}

/// One name.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub source: Key,
    pub live: Option<Live>,
    pub offered: Option<Offered>,
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
        let reason = format!("replaced by version {}", module.version);
        let before = slot.live.replace(Live {
            module,
            fingerprint,
            since: info::now(),
        });
        let source = slot.source.to_string();
        if let Some(before) = before {
            self.retire(&before, &source, &reason);
        }
    }

    /// Lets go of all names but these.
    pub(super) fn retain(&mut self, names: &BTreeSet<String>) {
        let gone: Vec<String> = self
            .named
            .keys()
            .filter(|name| !names.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(slot) = self.named.remove(&name)
                && let Some(live) = slot.live
            {
                tracing::info!(module = name, source = %slot.source, "module retired: its ConfigMap is gone");
                self.retire(&live, &slot.source.to_string(), "its ConfigMap is gone");
            }
        }
    }

    fn retire(&mut self, live: &Live, source: &str, reason: &str) {
        let mut shown = describe(&live.module, source, &live.since);
        shown.state = ModuleState::Retired;
        reason.clone_into(&mut shown.reason);
        self.retired.push_front(shown);
        self.retired.truncate(SHOWN_RETIRED);
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
                modules.add_refused(name, offered.failure_policy, &reason);
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
                &slot.source.to_string(),
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
    fn describe(&self, name: &str, source: &str) -> ModuleInfo {
        let shown = ModuleInfo {
            version: self.version.clone(),
            digest: self.digest.clone(),
            ..ModuleInfo::offered(name, source, self.state, &self.reason)
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
