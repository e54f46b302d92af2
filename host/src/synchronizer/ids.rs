//! Identities that the synchronizer's parts share.

use crate::store::{Key, Object};
use chiton_xds::{ResourceName, ResourceType};
use std::fmt;
use std::sync::Arc;

/// Domain that the inert virtual host of every route configuration serves. RFC 2606 reserves
/// `.invalid`, so nobody asks for it.
pub const INERT_DOMAIN: &str = "chiton.invalid";

/// What stands before a route configuration's name in the name of its rate limit filter, and of the
/// resource that holds its buckets.
pub const RATE_LIMIT: &str = "rate-limit_";

/// The resource name of a certificate's Secret.
#[must_use]
pub fn secret_name(secret: &Key) -> String {
    format!("secret_{}_{}", secret.namespace, secret.name)
}

/// A listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId {
    /// The Gateway.
    pub gateway: Key,
    /// Name of the listener.
    pub section: Arc<str>,
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener {} of {}", self.section, self.gateway)
    }
}

/// A route configuration of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteConfigId {
    /// Fleet.
    pub fleet: Arc<str>,
    /// Resource name.
    pub name: Arc<str>,
}

impl RouteConfigId {
    /// The virtual host of a hostname in this route configuration.
    #[must_use]
    pub fn host(&self, hostname: &str) -> HostId {
        HostId {
            route_config: self.clone(),
            hostname: hostname.into(),
        }
    }

    /// The route configuration's resource.
    #[must_use]
    pub fn resource(&self) -> ResourceName {
        resource(ResourceType::RouteConfiguration, &*self.name)
    }

    /// The resource that holds its rate-limit buckets.
    #[must_use]
    pub fn rate_limits(&self) -> ResourceName {
        resource(
            ResourceType::ExtensionConfig,
            format!("{RATE_LIMIT}{}", self.name),
        )
    }
}

/// A virtual host: one hostname of one route configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId {
    /// Route configuration.
    pub route_config: RouteConfigId,
    /// Hostname.
    pub hostname: Arc<str>,
}

impl HostId {
    /// The virtual host's resource.
    #[must_use]
    pub fn resource(&self) -> ResourceName {
        let name = format!("{}/{}", self.route_config.name, self.hostname);
        resource(ResourceType::VirtualHost, name)
    }
}

/// A resource's identity.
pub fn resource(kind: ResourceType, name: impl Into<String>) -> ResourceName {
    ResourceName {
        kind,
        name: name.into(),
    }
}

/// Order of objects by age, as the Gateway API breaks ties: oldest first, then namespace and name.
/// Without time stamps, namespace and name alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(Option<String>, Key);

impl Age {
    /// The age of an object; of one that is not there, the one that its identity gives.
    #[must_use]
    pub fn of(key: &Key, object: Option<&Arc<Object>>) -> Self {
        Self(
            object.and_then(|object| object.created.clone()),
            key.clone(),
        )
    }

    /// The object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.1
    }
}
