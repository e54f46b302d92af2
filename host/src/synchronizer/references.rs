//! Following references of routes to backends.

use super::decode;
use super::followed::Followed;
use super::grants::Grants;
use super::hostnames;
use super::model::{Cluster, ClusterEndpoints};
use crate::store::{Key, Object, Snapshot};
use chiton_ir::ObjectRef;
use chiton_ir::identity::names::CHITON_GROUP;
use chiton_ir::kinds::{BackendProtocol, BackendSpec};
use chiton_ir::route::BackendTarget;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Reason of the Gateway API: the object or its port does not exist, or it cannot be used.
pub const BACKEND_NOT_FOUND: &str = "BackendNotFound";
/// Reason of the Gateway API: an object of this kind is no backend.
pub const INVALID_KIND: &str = "InvalidKind";
/// Reason of the Gateway API: no `ReferenceGrant` allows it.
pub const REF_NOT_PERMITTED: &str = "RefNotPermitted";
/// Reason of the Gateway API: the backend speaks something that proxies do not.
pub const UNSUPPORTED_PROTOCOL: &str = "UnsupportedProtocol";

/// Most endpoints of a `Backend`.
const MAX_BACKEND_ENDPOINTS: usize = 64;

/// Why a reference is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }

    /// No grant allows the reference.
    #[must_use]
    pub fn not_permitted(from: &Key, to: &ObjectRef) -> Self {
        let message = format!(
            "{to} is in another namespace and no ReferenceGrant there allows references from {} in \
             namespace {}",
            from.kind, from.namespace
        );
        Self::new(REF_NOT_PERMITTED, message)
    }
}

/// What a cluster is made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A port of a Service.
    Service(Key, u16),
    /// A `Backend`.
    Backend(Key),
}

impl Source {
    /// Name of the cluster, and of its endpoint set.
    #[must_use]
    pub fn cluster_name(&self) -> String {
        match self {
            Self::Service(key, port) => format!("service_{}_{}_{port}", key.namespace, key.name),
            Self::Backend(key) => format!("backend_{}_{}", key.namespace, key.name),
        }
    }

    /// The object that the cluster is made from.
    #[must_use]
    pub fn object(&self) -> &Key {
        match self {
            Self::Service(key, _) | Self::Backend(key) => key,
        }
    }

    /// The cluster as the inputs have it now.
    ///
    /// # Errors
    /// Why there is none.
    pub fn cluster(&self, inputs: &Snapshot) -> Result<Cluster, Refusal> {
        let key = self.object();
        let object = inputs
            .get(key)
            .ok_or_else(|| Refusal::new(BACKEND_NOT_FOUND, format!("{key} does not exist")))?;
        let (endpoints, h2c) = match self {
            Self::Service(_, port) => {
                let port = service_port(object, *port)?;
                (ClusterEndpoints::Discovered, is_h2c(key, &port)?)
            }
            Self::Backend(_) => read_backend(object).map_err(|why| {
                Refusal::new(BACKEND_NOT_FOUND, format!("{key} cannot be used: {why}"))
            })?,
        };
        Ok(Cluster {
            name: self.cluster_name(),
            endpoints,
            h2c,
        })
    }
}

/// Follows a reference of a route to a backend; what was looked at is noted.
///
/// # Errors
/// Why it cannot be followed.
pub fn follow(
    route: &Key,
    target: &BackendTarget,
    inputs: &Snapshot,
    grants: &Grants,
    followed: &mut BTreeSet<Followed>,
) -> Result<Source, Refusal> {
    let to = &target.object;
    let is_service = to.is("", "Service");
    if !is_service && !to.is(CHITON_GROUP, "Backend") {
        let message = format!("{to} is neither a Service nor a Backend of {CHITON_GROUP}");
        return Err(Refusal::new(INVALID_KIND, message));
    }
    if !grants.permits(route, to, followed) {
        return Err(Refusal::not_permitted(route, to));
    }
    let key = inputs.key(to);
    followed.insert(Followed::Object(key.clone()));
    let source = match target.port {
        Some(port) if is_service => Source::Service(key, port),
        None if is_service => {
            let message = format!("the reference to {to} names no port");
            return Err(Refusal::new(BACKEND_NOT_FOUND, message));
        }
        _ => Source::Backend(key),
    };
    source.cluster(inputs)?;
    Ok(source)
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    spec: ServiceSpec,
}

#[derive(Default, Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    ports: Vec<ServicePort>,
}

/// A port of a Service, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; `EndpointSlice`s have the same. Empty for the only port.
    #[serde(default)]
    pub name: String,
    port: u16,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    app_protocol: Option<String>,
}

/// The port of a Service by its number.
///
/// # Errors
/// Why the Service cannot be a backend.
pub fn service_port(object: &Object, number: u16) -> Result<ServicePort, Refusal> {
    let key = &object.key;
    let service: Service = decode::lenient(object)
        .map_err(|why| Refusal::new(BACKEND_NOT_FOUND, format!("{key} cannot be read: {why}")))?;
    if service.spec.r#type.as_deref() == Some("ExternalName") {
        let message = format!(
            "{key} is of type ExternalName, which could name anything; use a Backend of \
             {CHITON_GROUP}"
        );
        return Err(Refusal::new(INVALID_KIND, message));
    }
    let mut ports = service.spec.ports.into_iter();
    let port = ports
        .find(|port| port.port == number)
        .ok_or_else(|| Refusal::new(BACKEND_NOT_FOUND, format!("{key} has no port {number}")))?;
    match port.protocol.as_deref() {
        None | Some("TCP") => Ok(port),
        Some(other) => {
            let message = format!("port {number} of {key} is {other}, not TCP");
            Err(Refusal::new(UNSUPPORTED_PROTOCOL, message))
        }
    }
}

fn is_h2c(key: &Key, port: &ServicePort) -> Result<bool, Refusal> {
    match port.app_protocol.as_deref() {
        None | Some("" | "http" | "kubernetes.io/ws") => Ok(false),
        Some("kubernetes.io/h2c") => Ok(true),
        Some(other) => {
            let message = format!(
                "port {} of {key} has appProtocol {other}; kubernetes.io/h2c, kubernetes.io/ws and \
                 http are supported",
                port.port
            );
            Err(Refusal::new(UNSUPPORTED_PROTOCOL, message))
        }
    }
}

#[derive(Deserialize)]
struct Backend {
    spec: BackendSpec,
}

/// Endpoints of a `Backend` and whether it speaks HTTP/2 in the clear.
///
/// # Errors
/// What is wrong with it, for people.
pub fn read_backend(object: &Object) -> Result<(ClusterEndpoints, bool), String> {
    let spec = decode::strict::<Backend>(object)?.spec;
    let h2c = spec.protocol == Some(BackendProtocol::H2c);
    if spec.endpoints.is_empty() || spec.endpoints.len() > MAX_BACKEND_ENDPOINTS {
        let count = spec.endpoints.len();
        return Err(format!(
            "spec.endpoints has {count} entries; 1 to {MAX_BACKEND_ENDPOINTS} are allowed"
        ));
    }
    let mut addresses = Vec::new();
    let mut names = Vec::new();
    for (index, endpoint) in spec.endpoints.into_iter().enumerate() {
        if endpoint.port == 0 {
            return Err(format!("spec.endpoints[{index}].port: 0 is no port"));
        }
        if let Ok(address) = endpoint.host.parse::<IpAddr>() {
            addresses.push((address, endpoint.port));
        } else if is_dns_name(&endpoint.host) {
            names.push((endpoint.host, endpoint.port));
        } else {
            return Err(format!(
                "spec.endpoints[{index}].host: {:?} is neither an IP address nor a host name",
                endpoint.host
            ));
        }
    }
    match (addresses.is_empty(), names.is_empty()) {
        (_, true) => Ok((ClusterEndpoints::Static(addresses), h2c)),
        (true, _) => Ok((ClusterEndpoints::Dns(names), h2c)),
        _ => Err("spec.endpoints mixes IP addresses and host names: use two Backends".into()),
    }
}

fn is_dns_name(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host != "*" && !host.starts_with("*.") && hostnames::is_valid(host.trim_end_matches('.'))
}
