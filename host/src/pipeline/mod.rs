//! From changed inputs to reconciled outputs.
//!
//! The pipeline runs epochs. An epoch takes what changed, runs in layers ({gateways, policies} →
//! routes → APIs) exactly the reconciles whose recorded reads changed, commits their outputs at
//! once as a new [`World`], and tells the synchronizer by [`channel::Events`].

pub mod channel;
mod output;

pub use output::{Documents, Outputs, Reconciled, RunState};

use crate::store::Snapshot;
use std::sync::Arc;

/// Inputs and outputs of one committed epoch: what everything behind the pipeline works from.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Number of the epoch, from 1; 0 before the first.
    pub epoch: u64,
    /// The inputs that the epoch ran on.
    pub inputs: Arc<Snapshot>,
    /// What reconcilers returned.
    pub outputs: Outputs,
}
