//! What an epoch has to do, and what it has done so far.

use super::backlog::Waiting;
use super::dispatch;
use super::layer::Layer;
use super::output::{Outputs, Reconciled};
use super::reads::View;
use super::retry::Cause;
use super::run::Done;
use super::upward::Changed;
use crate::modules::{LiveModule, Modules};
use crate::store::{Key, Snapshot};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, warn};

/// The state of one epoch. Nobody sees it before it is committed.
#[derive(Debug)]
pub(super) struct Plan {
    pub inputs: Arc<Snapshot>,
    pub modules: Arc<Modules>,
    pub now: Duration,
    /// Results as they will be committed.
    pub outputs: Outputs,
    /// Results that the epoch changed, as they were.
    pub changed: Changed,
    /// Objects that were run, in order.
    pub ran: Vec<Key>,
    /// Objects to be run in a later epoch.
    pub carried: Waiting,
    /// Failures of modules.
    pub failures: Failures,
    /// Late results of earlier epochs, by layer.
    pub late: BTreeMap<Layer, Vec<Done>>,
    /// Good runs of the trials of modules that this epoch puts in charge.
    pub tried: HashMap<Key, Done>,
    dirty: BTreeMap<Layer, Waiting>,
    /// The layer that runs or has run.
    layer: Option<Layer>,
}

impl Plan {
    pub fn new(
        inputs: Arc<Snapshot>,
        modules: Arc<Modules>,
        outputs: Outputs,
        now: Duration,
    ) -> Self {
        Self {
            inputs,
            modules,
            now,
            outputs,
            changed: Changed::new(),
            ran: Vec::new(),
            carried: Waiting::new(),
            failures: Failures::default(),
            late: BTreeMap::new(),
            tried: HashMap::new(),
            dirty: BTreeMap::new(),
            layer: None,
        }
    }

    /// Has an object run in its layer; in a later epoch if that layer is over. What does not exist
    /// or has no owner is left alone.
    pub fn mark(&mut self, key: &Key, cause: Cause) {
        let Some(layer) = dispatch::layer(key, &self.modules) else {
            return;
        };
        if self.inputs.get(key).is_none() {
            return;
        }
        if self.layer.is_some_and(|current| layer <= current) {
            self.carried.insert(key.clone(), cause);
            return;
        }
        self.dirty
            .entry(layer)
            .or_default()
            .entry(key.clone())
            .and_modify(|before| *before = cause.max(*before))
            .or_insert(cause);
    }

    /// Starts a layer: what is to be run in it.
    pub fn start(&mut self, layer: Layer) -> Waiting {
        self.layer = Some(layer);
        self.dirty.remove(&layer).unwrap_or_default()
    }

    /// What runs that start now see.
    pub fn view(&self) -> Arc<View> {
        Arc::new(View {
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            now: self.now,
        })
    }

    /// Replaces the result `before` of an object by another.
    pub fn replace(
        &mut self,
        key: &Key,
        before: Option<Arc<Reconciled>>,
        after: Option<Arc<Reconciled>>,
    ) {
        self.changed.entry(key.clone()).or_insert(before);
        self.outputs.set(key.clone(), after);
    }
}

/// Failures of a module in one epoch that are each a warning; what is more is counted, so that a
/// module that fails on all its objects does not flood the log.
const WARNINGS: usize = 3;

/// Failures of modules in one epoch.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<String, usize>);

impl Failures {
    /// Logs and counts one.
    pub fn add(&mut self, module: &LiveModule, object: &Key, reason: &str) {
        let count = self.0.entry(module.name.clone()).or_default();
        *count += 1;
        let (name, version) = (&module.name, &module.version);
        if *count <= WARNINGS {
            warn!(module = %name, %version, %object, reason, "the module failed");
        } else {
            debug!(module = %name, %version, %object, reason, "the module failed");
        }
    }

    /// Logs how many were not told one by one.
    pub fn tell(&self) {
        for (module, count) in &self.0 {
            if *count > WARNINGS {
                warn!(%module, objects = count, "the module failed on many objects");
            }
        }
    }
}
