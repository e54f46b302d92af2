//! What the running host knows about its objects, for everybody who asks.

use super::{ObjectStatus, Programmed, Said, all};
use crate::pipeline::World;
use crate::store::Key;
use crate::synchronizer::holding::Notice;
use crate::synchronizer::{Delta, Findings};
use arc_swap::ArcSwap;
use chiton_xds::{ResourceName, Server};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest world that the synchronizer has assembled, its findings, and the proxies' answers.
#[derive(Debug)]
pub struct Board {
    state: ArcSwap<State>,
    xds: Server,
}

/// One consistent state.
#[derive(Clone, Debug, Default)]
struct State {
    world: World,
    findings: imbl::OrdMap<Key, Arc<Findings>>,
    /// Resources that are not sent, and why.
    withheld: imbl::OrdMap<ResourceName, String>,
    /// Objects that are not served in their current form, and why.
    held: imbl::OrdMap<Key, Notice>,
}

impl Board {
    /// A board on which nothing stands yet.
    #[must_use]
    pub fn new(xds: Server) -> Self {
        Self {
            state: ArcSwap::default(),
            xds,
        }
    }

    /// Notes what a batch led to. There is one writer: the synchronizer's task.
    pub fn update(&self, world: World, delta: &Delta) {
        let mut state = State::clone(&self.state.load());
        state.world = world;
        for (key, findings) in &delta.findings {
            match findings {
                Some(findings) => state.findings.insert(key.clone(), findings.clone()),
                None => state.findings.remove(key),
            };
        }
        self.state.store(Arc::new(state));
    }

    /// Notes which resources are withheld from the proxies, and why.
    pub fn withhold(&self, withheld: BTreeMap<ResourceName, String>) {
        let mut state = State::clone(&self.state.load());
        state.withheld = withheld.into();
        self.state.store(Arc::new(state));
    }

    /// Notes which objects are not served in their current form, and why.
    pub fn hold(&self, held: BTreeMap<Key, Notice>) {
        let mut state = State::clone(&self.state.load());
        state.held = held.into();
        self.state.store(Arc::new(state));
    }

    /// Whether a resource is noted as withheld.
    #[must_use]
    pub fn is_withheld(&self, name: &ResourceName) -> bool {
        self.state.load().withheld.contains_key(name)
    }

    /// The world that the board stands at.
    #[must_use]
    pub fn world(&self) -> World {
        self.state.load().world.clone()
    }

    /// Number of the epoch that the board stands at.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.state.load().world.epoch
    }

    /// Status of every object.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectStatus> {
        let state = self.state.load();
        let programmed =
            |fleet: &str, names: &[ResourceName]| self.programmed(&state, fleet, names);
        let findings = state
            .findings
            .iter()
            .map(|(key, findings)| (key, findings.as_ref()));
        let proxies = Said {
            programmed: &programmed,
            held: &state.held,
        };
        all(&state.world, findings.collect(), Some(proxies))
    }

    fn programmed(&self, state: &State, fleet: &str, names: &[ResourceName]) -> Programmed {
        match names.iter().find_map(|name| state.withheld.get(name)) {
            Some(why) => Programmed::No("PortUnavailable", why.clone()),
            None => self.xds.programmed(fleet, names).into(),
        }
    }
}
