//! From changed inputs to reconciled outputs.
//!
//! The pipeline runs epochs. An epoch takes what changed, runs in layers ({gateways, policies} →
//! routes → APIs) exactly the reconciles whose recorded reads changed, commits their outputs at
//! once as a new [`World`], and tells the synchronizer by [`channel::Events`].
//!
//! | part | what it is for |
//! | --- | --- |
//! | `dispatch`, `layer` | which module owns an object, and when it runs |
//! | `reads`, `index` | what a run read, and who read what changed |
//! | `run`, `pool`, `check` | running a module, and checking what it returns |
//! | `settle` | what is kept for the object after a run, good or not |
//! | `saved` | good results that outlive a restart |
//! | `retry` | what runs without a change: retries and asked-for times |
//! | `backlog` | who waits for a run, oldest first |
//! | `plan`, `epoch`, `execution`, `upward` | an epoch and its events |
//! | `driver` | epochs for as long as the host lives |
//! | `trial` | a module on all its objects before it owns any |

mod backlog;
pub mod channel;
mod check;
mod dispatch;
mod driver;
mod epoch;
mod execution;
mod fold;
mod index;
mod layer;
mod metrics;
mod output;
mod plan;
mod pool;
mod reads;
mod retry;
mod run;
mod saved;
mod settle;
mod shared;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod trial;
mod upward;

pub use driver::{Driver, now};
pub use epoch::{Committed, Engine, Options, Report};
pub use layer::Layer;
pub use metrics::Metrics;
pub use output::{Documents, Outputs, Reconciled, RunState};
pub use retry::RetryPolicy;
pub use saved::Saved;
pub use settle::{MODULE_FAILED, MODULE_NOT_FOUND, MODULE_NOT_LIVE, NOT_READY, RECONCILED};
pub use trial::{GoodRuns, Tried, trial};

use crate::store::{Key, Snapshot};
use imbl::OrdMap;
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
    /// The last good results of objects whose result is not good now.
    pub kept: OrdMap<Key, Arc<Reconciled>>,
}
