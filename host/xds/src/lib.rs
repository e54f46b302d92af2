//! An xDS server: keyed resources in, delta ADS with VHDS out.

/// Type of a resource, in the order in which types are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Type and name: the identity of a resource in a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// Type.
    pub kind: ResourceType,
    /// Name.
    pub name: String,
}

/// A resource as it goes to clients. Cheap to clone: the bytes are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Identity.
    pub name: ResourceName,
    /// Content hash, 16 hex digits.
    pub version: String,
    /// The encoded `google.protobuf.Any`'s value: the resource's own message.
    pub body: prost::bytes::Bytes,
}

/// A change of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there in this form.
    Put(Resource),
    /// It is gone.
    Remove(ResourceName),
}
