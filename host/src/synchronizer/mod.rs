//! From reconciled outputs to Envoy resources.
//!
//! The synchronizer takes [`Batch`]es of events, re-assembles only what they touch, and returns the
//! resources that changed and what it found out about objects (dangling references, conflicts, who
//! won). It is a plain state machine: no task, no clock, no network. `chiton render` is one batch
//! of everything applied to an empty synchronizer, and any history of batches leads to the same
//! resources as that.
//!
//! A batch goes through these stages, each of which marks what the next ones have to look at
//! ([`dirty::Dirty`]):
//!
//! | stage | does |
//! | --- | --- |
//! | [`dirty`] | from events to what they touch, by the index of followed references |
//! | [`policies`] | attaches effects, follows Secrets |
//! | [`gateways`] | lays out [`listeners`], settles effects on whole listeners |
//! | [`apis`] | which routes are served through which prefixes |
//! | [`routes`] | follows [`references`], plans [`rules`], finds the virtual hosts |
//! | [`hosts`] | merges the entries of a virtual host by [`precedence`], with [`effects`] |
//! | [`backends`] | [`clusters`] and [`endpoints`] |
//! | [`findings`] | what status has to say |

mod apis;
mod backends;
mod certificates;
mod checks;
mod claims;
mod clusters;
mod conditions;
mod decode;
mod dirty;
mod effects;
mod endpoints;
pub mod envoy;
mod findings;
mod followed;
mod gateways;
mod grants;
pub mod holding;
mod hostnames;
mod hosts;
mod ids;
mod listeners;
pub mod model;
mod outcomes;
mod policies;
mod precedence;
mod publish;
mod references;
mod routes;
mod rules;
mod secrets;
mod sorted;
#[cfg(test)]
mod tests;

use crate::pipeline::World;
use crate::pipeline::channel::{Batch, Event};
use crate::store::Key;
use chiton_ir::gateway::Gateway;
use chiton_ir::{Condition, ParentRef};
use chiton_xds::{Change, ResourceName};
use ids::{HostId, ListenerId, RouteConfigId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The fleet of file mode, which serves all Gateways.
pub const DEFAULT_FLEET: &str = "default";

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
    pub resources: Needed,
    /// For a Gateway: the resources of each of its listeners. A listener with none is not served.
    pub sections: BTreeMap<String, Vec<ResourceName>>,
}

/// Resources by fleet, both sorted. One for each object, so it has no spare room.
pub type Needed = Box<[(Arc<str>, Box<[ResourceName]>)]>;

/// What a batch led to.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Changed resources by fleet. One call of `chiton_xds` a fleet publishes them at once.
    pub resources: BTreeMap<String, Vec<Change>>,
    /// New findings of the objects whose findings changed; `None`: the object is gone.
    pub findings: BTreeMap<Key, Option<Arc<Findings>>>,
}

/// The synchronizer.
#[derive(Debug)]
pub struct Synchronizer {
    options: Options,
    grants: grants::Grants,
    slices: endpoints::Slices,
    certificates: certificates::Certificates,
    policies: policies::Policies,
    apis: apis::Apis,
    references: followed::References,
    gateways: BTreeMap<Key, Arc<Gateway>>,
    layouts: BTreeMap<Arc<str>, listeners::Layout>,
    /// Effects on whole listeners; only of listeners that are served.
    wide: BTreeMap<ListenerId, effects::Winners>,
    route_configs: BTreeMap<RouteConfigId, gateways::Settled>,
    /// Boxed: the nodes of a map are half empty.
    routes: BTreeMap<Key, Box<routes::Routed>>,
    /// Routes by the listeners that accepted them.
    attached: BTreeMap<ListenerId, BTreeSet<Key>>,
    hosts: BTreeMap<HostId, Box<hosts::Host>>,
    /// Virtual hosts whose routes have effects of their own: a change of wide effects may reach
    /// them.
    own_effects: BTreeSet<HostId>,
    clusters: clusters::Clusters,
    outcomes: outcomes::Outcomes,
    published: publish::Published,
    findings: BTreeMap<Key, Arc<Findings>>,
}

impl Synchronizer {
    /// A synchronizer that has seen nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            grants: grants::Grants::default(),
            slices: endpoints::Slices::default(),
            certificates: certificates::Certificates::default(),
            policies: policies::Policies::default(),
            apis: apis::Apis::default(),
            references: followed::References::default(),
            gateways: BTreeMap::new(),
            layouts: BTreeMap::new(),
            wide: BTreeMap::new(),
            route_configs: BTreeMap::new(),
            routes: BTreeMap::new(),
            attached: BTreeMap::new(),
            hosts: BTreeMap::new(),
            own_effects: BTreeSet::new(),
            clusters: clusters::Clusters::default(),
            outcomes: outcomes::Outcomes::default(),
            published: publish::Published::default(),
            findings: BTreeMap::new(),
        }
    }

    /// Applies one batch.
    pub fn apply(&mut self, batch: &Batch) -> Delta {
        self.apply_over(batch, &batch.world)
    }

    /// Applies one batch whose world shows other forms of some objects than the true one, which
    /// says what there is.
    fn apply_over(&mut self, batch: &Batch, truth: &World) -> Delta {
        let world = &batch.world;
        let mut dirty = self.absorb(batch);
        self.update_policies(world, &mut dirty);
        self.update_gateways(world, &mut dirty);
        self.update_apis(world, &mut dirty);
        self.update_routes(world, &mut dirty);
        self.update_wide(&mut dirty);
        self.update_hosts(&mut dirty);
        self.update_rate_limits(&dirty);
        self.update_backends(world, &dirty);
        let findings = self.update_findings(truth, &dirty);
        Delta {
            resources: self.published.take(),
            findings,
        }
    }

    /// What the synchronizer says of an object, if it says anything.
    #[must_use]
    pub fn findings(&self, key: &Key) -> Option<&Findings> {
        self.findings.get(key).map(|findings| &**findings)
    }

    /// The fleet of a Gateway.
    fn fleet_of(&self, gateway: &Key) -> Arc<str> {
        if self.options.fleet_per_gateway {
            format!("{}/{}", gateway.namespace, gateway.name).into()
        } else {
            DEFAULT_FLEET.into()
        }
    }

    /// What serves a route configuration, if it is there.
    fn site(&self, id: &RouteConfigId) -> Option<&listeners::Site> {
        self.layouts.get(&id.fleet)?.route_configs.get(id)
    }

    /// Where a listener is served; nowhere if it is not.
    fn bindings(&self, listener: &ListenerId) -> &[RouteConfigId] {
        self.layouts
            .get(&self.fleet_of(&listener.gateway))
            .and_then(|layout| layout.bindings.get(listener))
            .map_or(&[], Vec::as_slice)
    }
}

/// One batch with everything that a world holds: what an empty synchronizer needs.
#[must_use]
pub fn everything(world: World) -> Batch {
    let inputs = world.inputs.objects().map(|object| &object.key);
    let outputs = world.outputs.iter().map(|(key, _)| key);
    let events = inputs
        .chain(outputs)
        .map(|key| (key.clone(), Event::Create))
        .collect();
    Batch { events, world }
}
