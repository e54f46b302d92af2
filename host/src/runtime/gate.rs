//! Holding back listeners whose port somebody else has.
//!
//! Envoy binds with `SO_REUSEPORT`, so two Envoys on one port would share it in silence. Beside a
//! managed Envoy the host therefore checks that a port is free before a listener is first sent, says
//! so in the listener's condition if it is not, and tries again until it is.

use chiton_xds::{Change, Resource, ResourceName, ResourceType};
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Lets changes through, but for listeners whose port is taken.
#[derive(Debug, Default)]
pub struct Gate {
    /// Addresses that are the managed Envoy's: those of listeners that were let through. They stay
    /// when a listener goes, since Envoy keeps them while it drains.
    ours: BTreeSet<SocketAddr>,
    /// Listeners that wait for their port.
    waiting: BTreeMap<String, Resource>,
}

impl Gate {
    /// A gate beside an Envoy that listens on these addresses already.
    pub fn new(ours: BTreeSet<SocketAddr>) -> Self {
        Self {
            ours,
            waiting: BTreeMap::new(),
        }
    }

    /// The changes that may be sent now. `is_free` says whether nobody has an address.
    pub fn pass(
        &mut self,
        changes: Vec<Change>,
        is_free: impl Fn(SocketAddr) -> bool,
    ) -> Vec<Change> {
        changes
            .into_iter()
            .filter_map(|change| self.pass_one(change, &is_free))
            .collect()
    }

    /// Listeners that waited and may be sent now.
    pub fn retry(&mut self, is_free: impl Fn(SocketAddr) -> bool) -> Vec<Change> {
        let waiting = std::mem::take(&mut self.waiting);
        self.pass(waiting.into_values().map(Change::Put).collect(), is_free)
    }

    /// What waits, and why.
    #[must_use]
    pub fn withheld(&self) -> BTreeMap<ResourceName, String> {
        self.waiting
            .values()
            .map(|listener| {
                let place = address(listener).map_or_else(String::new, |address| address.to_string());
                let why = format!(
                    "{place} is taken by another process; stop it, or give the listener another port"
                );
                (listener.name.clone(), why)
            })
            .collect()
    }

    /// Whether anything waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn pass_one(
        &mut self,
        change: Change,
        is_free: &impl Fn(SocketAddr) -> bool,
    ) -> Option<Change> {
        match &change {
            Change::Put(resource) if resource.name.kind == ResourceType::Listener => {
                let name = &resource.name.name;
                let address = address(resource);
                if address.is_none_or(|address| self.ours.contains(&address) || is_free(address)) {
                    self.waiting.remove(name);
                    self.ours.extend(address);
                    return Some(change);
                }
                self.waiting.insert(name.clone(), resource.clone());
                None
            }
            Change::Remove(name) if name.kind == ResourceType::Listener => {
                // It was never sent if it waited.
                self.waiting.remove(&name.name).is_none().then_some(change)
            }
            _ => Some(change),
        }
    }
}

/// The address that a listener binds, if it is a plain one.
fn address(listener: &Resource) -> Option<SocketAddr> {
    let listener = Listener::decode(listener.body.clone()).ok()?;
    let Address::SocketAddress(socket) = listener.address?.address? else {
        return None;
    };
    let PortSpecifier::PortValue(port) = socket.port_specifier? else {
        return None;
    };
    Some(SocketAddr::new(
        socket.address.parse().ok()?,
        u16::try_from(port).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use envoy_types::pb::envoy::config::core::v3 as core;

    fn listener(name: &str, port: u16) -> Resource {
        let socket = core::SocketAddress {
            address: "127.0.0.1".into(),
            port_specifier: Some(PortSpecifier::PortValue(port.into())),
            ..Default::default()
        };
        let message = Listener {
            name: name.into(),
            address: Some(core::Address {
                address: Some(Address::SocketAddress(socket)),
            }),
            ..Default::default()
        };
        Resource::new(ResourceType::Listener, name, message.encode_to_vec())
    }

    #[test]
    fn a_listener_waits_for_its_port_and_keeps_it() {
        let mut gate = Gate::default();
        let put = |port| vec![Change::Put(listener("http-1", port))];
        assert!(gate.pass(put(1), |_| false).is_empty());
        assert!(
            gate.withheld()
                .values()
                .next()
                .unwrap()
                .contains("127.0.0.1:1 is taken")
        );
        assert!(gate.retry(|_| false).is_empty());
        assert_eq!(gate.retry(|_| true), put(1));
        assert!(!gate.is_waiting());
        // The port is Envoy's now, so it is not free; the listener passes all the same.
        assert_eq!(gate.pass(put(1), |_| false), put(1));
        assert!(gate.pass(put(2), |_| false).is_empty());
    }

    #[test]
    fn a_listener_that_waits_can_go() {
        let mut gate = Gate::default();
        gate.pass(vec![Change::Put(listener("http-1", 1))], |_| false);
        let name = ResourceName {
            kind: ResourceType::Listener,
            name: "http-1".into(),
        };
        assert!(gate.pass(vec![Change::Remove(name)], |_| false).is_empty());
        assert!(!gate.is_waiting());
    }
}
