//! When a host knows enough to tell proxies the truth.
//!
//! Before that they get what was served before, or silence: a proxy that is told of half of what there
//! is loses the other half. Afterwards nothing waits for the whole.

use crate::modules::Registry;
use crate::store::{Snapshot, Store};
use chiton_ir::GroupKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a host is ready, and what for it waits.
#[derive(Debug)]
pub struct Readiness {
    kinds: Vec<GroupKind>,
    store: Arc<Store>,
    modules: Arc<Registry>,
    /// The source of objects holds none, which may be about to change.
    bare: AtomicBool,
    /// Modules have had their time.
    without_modules: AtomicBool,
    ready: AtomicBool,
}

/// One thing that a host needs in order to be ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it is.
    pub name: &'static str,
    /// Why it is not so yet; none if it is.
    pub missing: Option<String>,
}

impl Readiness {
    /// A host that needs these kinds to be listed.
    #[must_use]
    pub fn new(kinds: Vec<GroupKind>, store: Arc<Store>, modules: Arc<Registry>) -> Self {
        Self {
            kinds,
            store,
            modules,
            bare: AtomicBool::new(false),
            without_modules: AtomicBool::new(false),
            ready: AtomicBool::new(false),
        }
    }

    /// Whether proxies have been told the truth. Once that is so it stays so.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// What the host needs before its first epoch, and whether it has it.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        let mut needs = self.needs_of(&self.store.snapshot());
        let bare = self.bare.load(Ordering::Acquire);
        needs.push(Need {
            name: "manifests",
            missing: bare.then(|| "the folder holds no objects, as if it were not mounted".into()),
        });
        needs.push(Need {
            name: "first epoch",
            missing: (!self.is_ready()).then(|| "not committed yet".into()),
        });
        needs
    }

    /// Whether a world with these inputs is the truth.
    pub(super) fn suffices(&self, inputs: &Snapshot) -> bool {
        let needs = self.needs_of(inputs);
        needs.iter().all(|need| need.missing.is_none())
    }

    pub(super) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(super) fn set_bare(&self, bare: bool) {
        self.bare.store(bare, Ordering::Release);
    }

    /// From now on no module is waited for. Returns which were.
    pub(super) fn go_without_modules(&self) -> Vec<String> {
        self.without_modules.store(true, Ordering::Release);
        self.modules.loading()
    }

    fn needs_of(&self, inputs: &Snapshot) -> Vec<Need> {
        let loading = if self.without_modules.load(Ordering::Acquire) {
            Vec::new()
        } else {
            self.modules.loading()
        };
        let unlisted = self.kinds.iter().filter(|kind| !inputs.is_synced(kind));
        vec![
            Need {
                name: "kinds listed",
                missing: list(unlisted.map(ToString::to_string)),
            },
            Need {
                name: "modules live or refused",
                missing: list(loading.into_iter()),
            },
        ]
    }
}

fn list(names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}
