//! Running reconcilers.
//!
//! [`Reconciler`] is the seam between the pipeline and what runs: a WebAssembly component in this
//! module, a plain Rust function in tests of the pipeline.

mod answer;
mod bindings;
mod call;
pub mod compiler;
mod component;
mod engine;
mod fault;
mod front_door;
mod limits;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use component::is_dns_label;
pub use component::{Component, Terms, digest};
pub use engine::{Engine, EngineError, MAX_MEMORY, SEED};
pub use front_door::{CONTRACT, LoadError, MAX_COMPONENT};
pub use limits::{LOG_MESSAGES, Limits};

use crate::store::Object;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{Condition, GroupKind, ObjectRef};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Where a module runs: which documents it may return, and the outputs of which layers it may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Gateways: lowest layer.
    Gateway,
    /// Policies: lowest layer.
    Policy,
    /// Routes: read gateways' outputs.
    Route,
    /// APIs: read routes' and gateways' outputs.
    Api,
}

/// As in the contract: `gateway`, `policy`, `route`, `api`.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gateway => "gateway",
            Self::Policy => "policy",
            Self::Route => "route",
            Self::Api => "api",
        })
    }
}

/// What a module says of itself (`describe` of the contract).
#[derive(Clone, Debug)]
pub struct Description {
    /// Name, a DNS label.
    pub name: String,
    /// The module's own version.
    pub version: String,
    /// Role.
    pub role: Role,
    /// Kinds whose objects it reconciles.
    pub handles: Vec<GroupKind>,
    /// Kinds that it asks to read.
    pub reads: Vec<GroupKind>,
    /// JSON schema of a policy's settings; `None` where the module gives none.
    pub settings_schema: Option<serde_json::Value>,
}

/// How a reconcile ended, if the module did its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Documents by name, as JSON, and conditions.
    Done {
        /// Documents as the module returned them: not yet checked against their types.
        documents: Vec<(String, Vec<u8>)>,
        /// Conditions.
        conditions: Vec<Condition>,
    },
    /// Something that is needed is not there yet.
    NotReady(String),
}

/// Why a reconcile gave no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The module's fault: it returned an error, trapped, reached a limit or read what it was not
    /// granted. Not tried again until an input changes.
    #[error("{0}")]
    Module(String),
    /// Not known to be the module's fault: a deadline missed on a busy host, a resource of the
    /// host's used up. Tried again with back-off.
    #[error("{0}")]
    Host(String),
    /// A kind that was read is not synced yet. Tried again when it is.
    #[error("{0} is not listed yet")]
    NotSynced(GroupKind),
}

/// What a running reconciler may ask of the host. Each call is recorded by the implementor.
pub trait Reads: Send {
    /// The object, if it exists.
    fn get(&mut self, object: &ObjectRef) -> Result<Option<Arc<Object>>, Failure>;
    /// Objects of a kind that the selector selects, sorted.
    fn list(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>, Failure>;
    /// A document of a lower layer, as JSON.
    fn output(&mut self, object: &ObjectRef, name: &str) -> Result<Option<Arc<[u8]>>, Failure>;
    /// Policy documents attached to a target, as JSON, in order of precedence.
    fn policies(
        &mut self,
        target: &ObjectRef,
        section: Option<&str>,
    ) -> Result<Vec<Arc<[u8]>>, Failure>;
    /// Whether the time (seconds since 1970) has come; if not, the object is woken then.
    fn time_reached(&mut self, seconds: u64) -> bool;
}

/// Reads as they are lent to a call. The runtime of the guests keeps what it is lent in a store
/// that no borrow may enter, so the caller shares it and looks at what was recorded afterwards;
/// nobody holds the lock longer than one read.
pub type SharedReads = Arc<Mutex<dyn Reads>>;

/// A module that can be called. Calls may come from many threads at once.
pub trait Reconciler: Send + Sync {
    /// What the module says of itself.
    fn description(&self) -> &Description;

    /// Reconciles one object. `settings` is the module's settings from its manifest, as JSON.
    /// Blocks its thread until the outcome is there or a limit is reached.
    fn reconcile(
        &self,
        object: &Object,
        settings: &[u8],
        reads: SharedReads,
    ) -> Result<Outcome, Failure>;
}
