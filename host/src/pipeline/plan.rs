//! What an epoch has to do, and what it has done so far.

use super::dispatch;
use super::layer::Layer;
use super::output::{Outputs, Reconciled};
use super::reads::View;
use super::retry::Cause;
use super::run::Done;
use super::upward::Changed;
use crate::modules::Modules;
use crate::store::{Key, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

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
    pub carried: BTreeSet<Key>,
    /// Late results of earlier epochs, by layer.
    pub late: BTreeMap<Layer, Vec<Done>>,
    dirty: BTreeMap<Layer, BTreeMap<Key, Cause>>,
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
            carried: BTreeSet::new(),
            late: BTreeMap::new(),
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
            self.carried.insert(key.clone());
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
    pub fn start(&mut self, layer: Layer) -> BTreeMap<Key, Cause> {
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
