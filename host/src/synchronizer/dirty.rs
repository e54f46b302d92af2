//! What a batch touches.

use super::Synchronizer;
use super::apis::is_api;
use super::endpoints::is_slice;
use super::followed::{Followed, Follower};
use super::ids::{HostId, ListenerId, RouteConfigId};
use crate::pipeline::Documents;
use crate::pipeline::channel::Batch;
use crate::store::Key;
use chiton_ir::identity::names::{CHITON_GROUP, GATEWAY_GROUP};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What has to be looked at again. Stages add to what later stages look at.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Policies to prepare.
    pub policies: BTreeSet<Key>,
    /// Gateways whose document may have changed.
    pub gateways: BTreeSet<Key>,
    /// Fleets to lay out.
    pub fleets: BTreeSet<Arc<str>>,
    /// APIs to read.
    pub apis: BTreeSet<Key>,
    /// Routes to plan.
    pub routes: BTreeSet<Key>,
    /// Listeners whose wide effects may have changed.
    pub listeners: BTreeSet<ListenerId>,
    /// Route configurations to settle.
    pub route_configs: BTreeSet<RouteConfigId>,
    /// Effect names that changed on whole listeners.
    pub wide: BTreeMap<RouteConfigId, BTreeSet<&'static str>>,
    /// Virtual hosts to assemble.
    pub hosts: BTreeSet<HostId>,
    /// Route configurations whose rate-limit buckets may have changed.
    pub limits: BTreeSet<RouteConfigId>,
    /// Services and Backends that changed: their clusters and endpoints.
    pub backends: BTreeSet<Key>,
    /// Services of which only endpoints changed.
    pub endpoints: BTreeSet<Key>,
    /// Clusters that a fleet needs anew or no longer.
    pub clusters: BTreeSet<(Arc<str>, String)>,
    /// Objects whose findings may have changed.
    pub findings: BTreeSet<Key>,
}

impl Synchronizer {
    /// From events to what they touch.
    pub(super) fn absorb(&mut self, batch: &Batch) -> Dirty {
        let mut dirty = Dirty::default();
        for key in batch.events.keys() {
            self.absorb_input(key, batch, &mut dirty);
            self.absorb_output(key, batch, &mut dirty);
            dirty.findings.extend(self.policies.targeting(key).cloned());
        }
        dirty
    }

    /// Inputs that the host follows itself.
    fn absorb_input(&mut self, key: &Key, batch: &Batch, dirty: &mut Dirty) {
        let inputs = &batch.world.inputs;
        if key.is(GATEWAY_GROUP, "ReferenceGrant") {
            let object = inputs.get(key).map(|object| &**object);
            for grant in self.grants.update(key, object) {
                self.mark_followers(&Followed::Grant(Arc::new(grant)), dirty);
            }
            dirty.findings.insert(key.clone());
        } else if is_slice(key) {
            dirty.endpoints.extend(self.slices.update(key, inputs));
            dirty.findings.insert(key.clone());
            return; // Nobody follows slices: a Service is what is referred to.
        } else if key.is("", "Service") {
            dirty.backends.insert(key.clone());
        } else if key.is(CHITON_GROUP, "Backend") {
            dirty.backends.insert(key.clone());
            dirty.findings.insert(key.clone());
        } else if key.is("", "Secret") && inputs.get(key).is_none() {
            self.certificates.forget(key);
        }
        self.mark_followers(&Followed::Object(key.clone()), dirty);
    }

    /// Objects with documents, now or before.
    fn absorb_output(&self, key: &Key, batch: &Batch, dirty: &mut Dirty) {
        let result = batch.world.outputs.get(key);
        let documents = result.map(|result| &result.documents);
        if self.gateways.contains_key(key) || documents.is_some_and(|it| it.gateway.is_some()) {
            dirty.gateways.insert(key.clone());
        }
        if self.policies.get(key).is_some() || documents.is_some_and(|it| it.policy.is_some()) {
            dirty.policies.insert(key.clone());
        }
        if self.routes.contains_key(key) || documents.is_some_and(Documents::is_route) {
            dirty.routes.insert(key.clone());
        }
        if is_api(key)
            || self.apis.get(key).is_some()
            || documents.is_some_and(|it| it.api.is_some())
        {
            dirty.apis.insert(key.clone());
        }
    }

    fn mark_followers(&self, followed: &Followed, dirty: &mut Dirty) {
        for follower in self.references.followers(followed) {
            match follower {
                Follower::Fleet(fleet) => drop(dirty.fleets.insert(fleet.clone())),
                Follower::Policy(key) => drop(dirty.policies.insert(key.clone())),
                Follower::Route(key) => drop(dirty.routes.insert(key.clone())),
            }
        }
    }
}
