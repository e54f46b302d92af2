//! Endpoints of Services, from `EndpointSlice`s. No route is looked at when they change.

use super::decode;
use super::followed;
use super::model::EndpointSet;
use super::references::service_port;
use crate::store::{Key, Snapshot};
use chiton_ir::identity::names::DISCOVERY_GROUP;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The label by which a slice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Which slices belong to which Service.
#[derive(Debug, Default)]
pub struct Slices {
    service_of: BTreeMap<Key, Key>,
    of_service: BTreeMap<Key, BTreeSet<Key>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slice {
    #[serde(default)]
    address_type: String,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<Port>>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Option<Conditions>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    #[serde(default)]
    ready: Option<bool>,
}

#[derive(Deserialize)]
struct Port {
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "port")]
    number: Option<u16>,
    #[serde(default)]
    protocol: Option<String>,
}

impl Slices {
    /// Notes which Service a slice belongs to now, and returns the Services whose endpoints may
    /// have changed.
    pub fn update(&mut self, key: &Key, inputs: &Snapshot) -> BTreeSet<Key> {
        let service = inputs
            .get(key)
            .and_then(|slice| slice.labels.get(SERVICE_LABEL))
            .map(|name| Key::new("", "Service", &key.namespace, name));
        let mut touched = BTreeSet::new();
        if let Some(before) = self.service_of.remove(key) {
            followed::remove(&mut self.of_service, &before, key);
            touched.insert(before);
        }
        if let Some(service) = service {
            self.service_of.insert(key.clone(), service.clone());
            self.of_service
                .entry(service.clone())
                .or_default()
                .insert(key.clone());
            touched.insert(service);
        }
        touched
    }

    /// The ready endpoints of a port of a Service. A Service or a slice that is not there or cannot
    /// be read has none.
    #[must_use]
    pub fn endpoints(&self, service: &Key, port: u16, inputs: &Snapshot) -> EndpointSet {
        let mut endpoints = BTreeSet::new();
        let port_name = inputs
            .get(service)
            .and_then(|object| service_port(object, port).ok())
            .map(|port| port.name);
        if let Some(port_name) = port_name {
            for key in self.of_service.get(service).into_iter().flatten() {
                if let Some(object) = inputs.get(key) {
                    match decode::lenient::<Slice>(object) {
                        Ok(slice) => slice.collect(&port_name, &mut endpoints),
                        Err(error) => tracing::warn!(object = %key, %error, "not readable"),
                    }
                }
            }
        }
        EndpointSet {
            cluster: format!("service_{}_{}_{port}", service.namespace, service.name),
            endpoints: endpoints.into_iter().collect(),
        }
    }
}

impl Slice {
    fn collect(&self, port_name: &str, into: &mut BTreeSet<(IpAddr, u16)>) {
        if self.address_type == "FQDN" {
            return;
        }
        let numbers: Vec<u16> = self
            .ports
            .iter()
            .flatten()
            .filter(|port| port.name.as_deref().unwrap_or_default() == port_name)
            .filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
            .filter_map(|port| port.number.filter(|number| *number > 0))
            .collect();
        for endpoint in self.endpoints.iter().flatten() {
            // Unset means unknown, which is to be taken for ready (EndpointConditions).
            let ready = endpoint.conditions.as_ref().and_then(|all| all.ready);
            if ready == Some(false) {
                continue;
            }
            // The addresses of one endpoint are interchangeable; clients use the first one.
            let Some(address) = endpoint.addresses.first().and_then(|it| it.parse().ok()) else {
                continue;
            };
            into.extend(numbers.iter().map(|number| (address, *number)));
        }
    }
}

/// What is wrong with a slice, if it cannot be read.
#[must_use]
pub fn problem(object: &crate::store::Object) -> Option<String> {
    decode::lenient::<Slice>(object).err()
}

/// Whether an object is a slice.
#[must_use]
pub fn is_slice(key: &Key) -> bool {
    key.is(DISCOVERY_GROUP, "EndpointSlice")
}
