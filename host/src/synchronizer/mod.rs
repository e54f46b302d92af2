//! From reconciled outputs to Envoy resources.
//!
//! The synchronizer takes [`Batch`]es of events, re-assembles only what they touch, and returns the
//! resources that changed and what it found out about objects (dangling references, conflicts, who
//! won). It is a plain state machine: no task, no clock, no network. `chiton render` is one batch
//! of everything applied to an empty synchronizer.

pub mod envoy;
pub mod model;

use crate::pipeline::channel::Batch;
use crate::store::Key;
use chiton_ir::{Condition, ParentRef};
use chiton_xds::{Change, ResourceName};
use std::collections::BTreeMap;

/// What the synchronizer needs to know of its surroundings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of every listener; none: what the Gateway asks for, else all addresses.
    pub bind_address: Option<std::net::IpAddr>,
    /// Added to listener ports below 1024 (for proxies that may not bind them).
    pub low_port_offset: u16,
    /// Whether proxies write an access log to their standard output.
    pub access_log: bool,
    /// One fleet for all Gateways, named `default` (file mode), or one for each,
    /// `<namespace>/<gateway>`.
    pub fleet_per_gateway: bool,
}

/// What the synchronizer says of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Conditions that replace those of the same scope and type that the reconciler gave, where
    /// they are worse, and those that only the host gives. `Programmed` is not among them.
    pub conditions: Vec<Condition>,
    /// For a Gateway: number of routes attached to each listener.
    pub attached_routes: BTreeMap<String, u32>,
    /// For a policy: the Gateways through which it has an effect.
    pub ancestors: Vec<ParentRef>,
    /// Resources in each fleet that must be acknowledged before the object is programmed.
    pub resources: BTreeMap<String, Vec<ResourceName>>,
}

/// What a batch led to.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Changed resources by fleet. One call of `chiton_xds` a fleet publishes them at once.
    pub resources: BTreeMap<String, Vec<Change>>,
    /// New findings of the objects whose findings changed; `None`: the object is gone.
    pub findings: BTreeMap<Key, Option<Findings>>,
}

/// The synchronizer.
#[derive(Debug)]
pub struct Synchronizer {
    options: Options,
}

impl Synchronizer {
    /// A synchronizer that has seen nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Applies one batch.
    pub fn apply(&mut self, _batch: &Batch) -> Delta {
        let _ = &self.options;
        Delta::default()
    }
}
