//! What is served: types, names, resources and changes of them.

use prost::bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// Type of a resource, in the order in which types are sent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum ResourceType {
    /// `envoy.config.cluster.v3.Cluster`.
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`.
    Endpoints,
    /// `envoy.extensions.transport_sockets.tls.v3.Secret`.
    Secret,
    /// `envoy.config.core.v3.TypedExtensionConfig`.
    ExtensionConfig,
    /// `envoy.config.listener.v3.Listener`.
    Listener,
    /// `envoy.config.route.v3.RouteConfiguration`.
    RouteConfiguration,
    /// `envoy.config.route.v3.VirtualHost`.
    VirtualHost,
}

impl ResourceType {
    /// Every type, in the order in which types are sent.
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::Endpoints,
        Self::Secret,
        Self::ExtensionConfig,
        Self::Listener,
        Self::RouteConfiguration,
        Self::VirtualHost,
    ];

    /// The type URL as it stands in requests, responses and `google.protobuf.Any`.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::ExtensionConfig => {
                "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
            }
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::RouteConfiguration => {
                "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
            }
            Self::VirtualHost => "type.googleapis.com/envoy.config.route.v3.VirtualHost",
        }
    }

    /// The type of a type URL; none if it is not served here.
    #[must_use]
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// Short name of the message, for logs and metrics: `Cluster`, `ClusterLoadAssignment`...
    #[must_use]
    pub fn short_name(self) -> &'static str {
        let url = self.type_url();
        url.rsplit('.').next().unwrap_or(url)
    }

    /// Position in [`ResourceType::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_name())
    }
}

/// Type and name: the identity of a resource in a group.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ResourceName {
    /// Type.
    pub kind: ResourceType,
    /// Name.
    pub name: String,
}

impl ResourceName {
    /// A name from its parts.
    pub fn new(kind: ResourceType, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// The route configuration that a virtual host belongs to: what stands before the last `/` of
    /// its name. None for other types, and for a name without `/`.
    #[must_use]
    pub fn route_config(&self) -> Option<&str> {
        if self.kind != ResourceType::VirtualHost {
            return None;
        }
        route_config_of(&self.name)
    }
}

/// What stands before the last `/` of a virtual host's name.
pub(crate) fn route_config_of(virtual_host: &str) -> Option<&str> {
    virtual_host
        .rsplit_once('/')
        .map(|(route_config, _)| route_config)
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A resource as it goes to clients. Cheap to clone: the bytes are shared.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource {
    /// Identity.
    pub name: ResourceName,
    /// Content hash, 16 hex digits.
    pub version: String,
    /// The encoded `google.protobuf.Any`'s value: the resource's own message.
    pub body: Bytes,
}

impl Resource {
    /// A resource whose version is [`version_of`] its body.
    pub fn new(kind: ResourceType, name: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self {
            name: ResourceName::new(kind, name),
            version: version_of(&body),
            body,
        }
    }

    /// A resource that holds the encoded message.
    pub fn encode(
        kind: ResourceType,
        name: impl Into<String>,
        message: &impl prost::Message,
    ) -> Self {
        Self::new(kind, name, message.encode_to_vec())
    }
}

/// Bodies are not printed: secrets are resources too.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("bytes", &self.body.len())
            .finish()
    }
}

/// The version of a body: the first 16 hex digits of its SHA-256. Short, because a client that
/// reconnects repeats the version of every resource it has.
#[must_use]
pub fn version_of(body: &[u8]) -> String {
    use fmt::Write as _;
    Sha256::digest(body)
        .iter()
        .take(8)
        .fold(String::with_capacity(16), |mut text, byte| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// A change of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there in this form.
    Put(Resource),
    /// It is gone.
    Remove(ResourceName),
}

impl Change {
    /// What is changed.
    #[must_use]
    pub fn name(&self) -> &ResourceName {
        match self {
            Self::Put(resource) => &resource.name,
            Self::Remove(name) => name,
        }
    }

    /// Makes the change in a map of resources.
    pub fn apply(self, resources: &mut BTreeMap<ResourceName, Resource>) {
        match self {
            Self::Put(resource) => drop(resources.insert(resource.name.clone(), resource)),
            Self::Remove(name) => drop(resources.remove(&name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_start_of_the_sha256() {
        assert_eq!(version_of(b""), "e3b0c44298fc1c14");
        assert_eq!(
            Resource::new(ResourceType::Secret, "s", "abc").version,
            "ba7816bf8f01cfea"
        );
    }

    #[test]
    fn type_urls_go_both_ways_and_all_is_in_order() {
        for (index, kind) in ResourceType::ALL.into_iter().enumerate() {
            assert_eq!(ResourceType::from_type_url(kind.type_url()), Some(kind));
            assert_eq!(kind.index(), index);
        }
        assert_eq!(ResourceType::from_type_url("type.googleapis.com/x.Y"), None);
        assert_eq!(ResourceType::Endpoints.to_string(), "ClusterLoadAssignment");
    }

    #[test]
    fn the_route_config_of_a_virtual_host_is_what_precedes_the_last_slash() {
        let name = ResourceName::new(ResourceType::VirtualHost, "a/b/c");
        assert_eq!(name.route_config(), Some("a/b"));
        assert_eq!(
            ResourceName::new(ResourceType::VirtualHost, "a").route_config(),
            None
        );
        assert_eq!(
            ResourceName::new(ResourceType::Cluster, "a/b").route_config(),
            None
        );
    }
}
