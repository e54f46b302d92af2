//! Good results that outlive a restart.
//!
//! The results of a run can be had again from its inputs, as long as the run is good. What an object
//! keeps while its module fails, or has not answered yet, cannot: so good results are saved, and an
//! engine that starts falls back on them as it does on those of its own runs.

use super::World;
use super::check;
use super::output::{Reconciled, RunState};
use crate::store::{Key, Snapshot};
use chiton_ir::Condition;
use std::collections::HashMap;
use std::sync::Arc;
use tracing::warn;

/// A good result, as it is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Name of the module.
    pub module: String,
    /// `metadata.generation` of the object.
    pub generation: i64,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Documents as JSON, by name, sorted.
    pub documents: Vec<(String, Arc<[u8]>)>,
}

impl World {
    /// The newest good result of every object that has one with documents, sorted by key.
    pub fn good(&self) -> impl Iterator<Item = (&Key, &Arc<Reconciled>)> {
        self.outputs
            .iter()
            .filter_map(|(key, result)| match result.state {
                RunState::Good => Some((key, result)),
                _ => Some((key, self.kept.get(key)?)),
            })
            .filter(|(_, result)| !result.documents.json.is_empty())
    }
}

/// Good results from before a restart, of objects that have had no good run since. They are decoded
/// when they are needed, which most never are.
#[derive(Debug, Default)]
pub(super) struct Restored(HashMap<Key, Saved>);

impl Restored {
    pub fn new(results: impl IntoIterator<Item = (Key, Saved)>) -> Self {
        Self(results.into_iter().collect())
    }

    /// The result of an object, if there is one.
    pub fn take(&mut self, key: &Key) -> Option<Reconciled> {
        let saved = self.0.remove(key)?;
        match check::restored(key, saved.documents) {
            Ok(documents) => Some(Reconciled {
                module: saved.module,
                documents,
                conditions: saved.conditions.into(),
                state: RunState::Good,
                generation: saved.generation,
            }),
            Err(error) => {
                // Another version of this program wrote it.
                warn!(object = %key, "a result from before the restart cannot be used: {error}");
                None
            }
        }
    }

    pub fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Forgets objects that were deleted while nobody watched.
    pub fn retain(&mut self, inputs: &Snapshot) {
        self.0
            .retain(|key, _| inputs.get(key).is_some() || !inputs.is_synced(&key.group_kind()));
    }
}
