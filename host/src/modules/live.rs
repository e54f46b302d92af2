//! The set of live modules.

use crate::pipeline::GoodRuns;
use crate::sandbox::{Failure, Limits, Outcome, Reconciler, Role, SharedReads};
use crate::store::Object;
use chiton_ir::GroupKind;
use chiton_ir::identity::names::CHITON_GROUP;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What holds for an object while its module cannot give an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePolicy {
    /// The last good output; without one, as if the object were absent.
    #[default]
    KeepLast,
    /// Requests that the policy is for are answered with 500.
    FailClosed,
    /// As if the object were absent.
    FailOpen,
}

/// A module that owns objects. It never changes: other settings are another `LiveModule`.
pub struct LiveModule {
    /// Name, a DNS label; what `spec.type` of a `Policy` names.
    pub name: String,
    /// The module's own version.
    pub version: String,
    /// SHA-256 of the component in hexadecimal; empty for what is no component.
    pub digest: String,
    /// Role.
    pub role: Role,
    /// Kinds whose objects it reconciles. A policy module need not name `Policy`.
    pub handles: Vec<GroupKind>,
    /// What runs.
    pub reconciler: Arc<dyn Reconciler>,
    /// Settings from the module's manifest, as JSON.
    pub settings: Arc<[u8]>,
    /// Kinds that it may read. The sandbox enforces it.
    pub granted: BTreeSet<GroupKind>,
    /// What holds while the module fails.
    pub failure_policy: FailurePolicy,
    /// Limits of each call. The sandbox enforces them.
    pub limits: Limits,
    /// Checks `default` and `override` of a `Policy`; none if the module gives no schema.
    pub settings_schema: Option<Arc<jsonschema::Validator>>,
    /// Good runs of its trial.
    pub trial: GoodRuns,
    /// Calls so far.
    reconciles: AtomicU64,
    /// Calls that ended in a failure of the module or the host.
    failures: AtomicU64,
}

impl LiveModule {
    /// A module that runs `reconciler`, with everything else as its description says: it may read
    /// what it asks for, has no settings and the usual limits.
    ///
    /// # Errors
    /// The settings' schema is not a JSON schema.
    pub fn new(reconciler: Arc<dyn Reconciler>) -> Result<Self, String> {
        let description = reconciler.description();
        let settings_schema = description
            .settings_schema
            .as_ref()
            .map(jsonschema::validator_for)
            .transpose()
            .map_err(|error| format!("settings-schema is not a JSON schema: {error}"))?
            .map(Arc::new);
        Ok(Self {
            name: description.name.clone(),
            version: description.version.clone(),
            digest: String::new(),
            role: description.role,
            handles: description.handles.clone(),
            granted: description.reads.iter().cloned().collect(),
            settings: Arc::from(&b"{}"[..]),
            failure_policy: FailurePolicy::default(),
            limits: Limits::default(),
            settings_schema,
            trial: GoodRuns::default(),
            reconciles: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            reconciler,
        })
    }

    /// Reconciles one object, with the module's settings, and counts it.
    pub fn reconcile(&self, object: &Object, reads: SharedReads) -> Result<Outcome, Failure> {
        let result = self.reconciler.reconcile(object, &self.settings, reads);
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        if matches!(result, Err(Failure::Module(_) | Failure::Host(_))) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Calls so far.
    #[must_use]
    pub fn reconciles(&self) -> u64 {
        self.reconciles.load(Ordering::Relaxed)
    }

    /// Calls that ended in a failure so far; runs that met a kind not yet synced are none.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for LiveModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveModule")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("digest", &self.digest)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// What a `Policy` type stands for.
#[derive(Clone, Debug)]
pub enum PolicyModule {
    /// A live module.
    Live(Arc<LiveModule>),
    /// A module that is known and has no live version: refused, or still being loaded.
    Refused {
        /// What holds meanwhile.
        failure_policy: FailurePolicy,
        /// A sentence for the policy's author.
        reason: String,
    },
    /// No module has this name.
    Unknown,
}

/// What differs between two [`Modules`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names of policy modules that came, went or changed: `Policy` objects of these types are
    /// reconciled again.
    pub policies: BTreeSet<String>,
    /// Kinds whose module came, went or changed: all their objects are reconciled again.
    pub kinds: BTreeSet<GroupKind>,
}

impl Changes {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.kinds.is_empty()
    }
}

/// All modules at one moment.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    kinds: BTreeMap<GroupKind, Arc<LiveModule>>,
    policies: BTreeMap<String, PolicyModule>,
}

impl Modules {
    /// A set of live modules. Where two handle one kind, or two policy modules have one name, the
    /// first stays.
    pub fn new(live: impl IntoIterator<Item = Arc<LiveModule>>) -> Self {
        let mut modules = Self::default();
        for module in live {
            if module.role == Role::Policy {
                modules
                    .policies
                    .entry(module.name.clone())
                    .or_insert_with(|| PolicyModule::Live(module.clone()));
            }
            for kind in &module.handles {
                if !is_policy(kind) {
                    modules
                        .kinds
                        .entry(kind.clone())
                        .or_insert_with(|| module.clone());
                }
            }
        }
        modules
    }

    /// Adds a module that is known and not live, unless a policy module of that name is live.
    pub fn add_refused(&mut self, name: &str, failure_policy: FailurePolicy, reason: &str) {
        self.policies
            .entry(name.to_owned())
            .or_insert_with(|| PolicyModule::Refused {
                failure_policy,
                reason: reason.to_owned(),
            });
    }

    /// The module that reconciles a kind; for `Policy` see [`Modules::policy`].
    #[must_use]
    pub fn for_kind(&self, kind: &GroupKind) -> Option<Arc<LiveModule>> {
        self.kinds.get(kind).cloned()
    }

    /// Every kind that a live module reconciles, with the module; without `Policy`.
    pub fn kinds(&self) -> impl Iterator<Item = (&GroupKind, &Arc<LiveModule>)> {
        self.kinds.iter()
    }

    /// All live modules; one that handles several kinds more than once.
    pub fn live(&self) -> impl Iterator<Item = &Arc<LiveModule>> {
        let policies = self.policies.values().filter_map(|module| match module {
            PolicyModule::Live(module) => Some(module),
            PolicyModule::Refused { .. } | PolicyModule::Unknown => None,
        });
        self.kinds.values().chain(policies)
    }

    /// The module for `Policy` objects of a type.
    #[must_use]
    pub fn policy(&self, name: &str) -> PolicyModule {
        self.policies
            .get(name)
            .cloned()
            .unwrap_or(PolicyModule::Unknown)
    }

    /// What must be reconciled again when `self` follows `before`.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Changes {
        Changes {
            policies: different(&self.policies, &before.policies, PolicyModule::same),
            kinds: different(&self.kinds, &before.kinds, Arc::ptr_eq),
        }
    }
}

impl PolicyModule {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Live(a), Self::Live(b)) => Arc::ptr_eq(a, b),
            (
                Self::Refused {
                    failure_policy,
                    reason,
                },
                Self::Refused {
                    failure_policy: other_policy,
                    reason: other_reason,
                },
            ) => failure_policy == other_policy && reason == other_reason,
            (Self::Unknown, Self::Unknown) => true,
            _ => false,
        }
    }
}

/// Keys that are in one map only, or have another value.
fn different<K: Ord + Clone, V>(
    now: &BTreeMap<K, V>,
    before: &BTreeMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> BTreeSet<K> {
    now.keys()
        .chain(before.keys())
        .filter(|key| match (now.get(key), before.get(key)) {
            (Some(now), Some(before)) => !same(now, before),
            _ => true,
        })
        .cloned()
        .collect()
}

pub(super) fn is_policy(kind: &GroupKind) -> bool {
    kind.group == CHITON_GROUP && kind.kind == "Policy"
}
