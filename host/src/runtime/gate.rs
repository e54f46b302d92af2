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
    /// when a listener goes, until Envoy says that it no longer listens there.
    ours: BTreeSet<SocketAddr>,
    /// Addresses of the listeners that were let through and have not gone, by name.
    used: BTreeMap<String, SocketAddr>,
    /// Listeners that wait for their port.
    waiting: BTreeMap<String, Resource>,
}

impl Gate {
    /// A gate beside an Envoy that listens on these addresses already.
    pub fn new(ours: BTreeSet<SocketAddr>) -> Self {
        Self {
            ours,
            ..Self::default()
        }
    }

    /// Forgets all listeners, but not which addresses are Envoy's: all that there are come again.
    pub fn start_over(&mut self) {
        self.used.clear();
        self.waiting.clear();
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

    /// Whether addresses are Envoy's that no listener needs any more.
    #[must_use]
    pub fn has_left_over(&self) -> bool {
        let used: BTreeSet<_> = self.used.values().collect();
        self.ours.iter().any(|address| !used.contains(address))
    }

    /// Forgets addresses that no listener needs any more and where Envoy no longer listens: it is to
    /// be asked after the listeners went.
    pub fn forget(&mut self, bound: &BTreeSet<SocketAddr>) {
        let used: BTreeSet<_> = self.used.values().collect();
        self.ours
            .retain(|address| used.contains(address) || bound.contains(address));
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
                    self.used
                        .extend(address.map(|address| (name.clone(), address)));
                    return Some(change);
                }
                self.waiting.insert(name.clone(), resource.clone());
                None
            }
            Change::Remove(name) if name.kind == ResourceType::Listener => {
                self.used.remove(&name.name);
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
    fn an_address_is_forgotten_once_envoy_has_left_it() {
        let place = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut gate = Gate::new([place(1), place(3)].into());
        let changes = [1, 2].map(|port| Change::Put(listener(&format!("http-{port}"), port)));
        assert_eq!(gate.pass(changes.into(), |_| true).len(), 2);
        gate.forget(&[place(1), place(2), place(3)].into());
        assert!(gate.has_left_over(), "nobody needs the third");
        gate.forget(&[].into());
        assert!(!gate.has_left_over());

        let name = ResourceName::new(ResourceType::Listener, "http-1");
        gate.pass(vec![Change::Remove(name)], |_| true);
        gate.forget(&[place(1), place(2)].into());
        let again = || vec![Change::Put(listener("http-1", 1))];
        assert_eq!(gate.pass(again(), |_| false), again(), "it drains");
        let name = ResourceName::new(ResourceType::Listener, "http-1");
        gate.pass(vec![Change::Remove(name)], |_| true);
        gate.forget(&[place(2)].into());
        assert!(
            gate.pass(again(), |_| false).is_empty(),
            "somebody else took it"
        );
    }

    #[test]
    fn what_waits_is_forgotten_when_all_comes_again() {
        let mut gate = Gate::default();
        gate.pass(vec![Change::Put(listener("http-1", 1))], |_| false);
        gate.start_over();
        assert!(gate.retry(|_| true).is_empty());
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
