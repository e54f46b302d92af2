//! Identities of Kubernetes objects, as every document names them. They are types of the contract, so
//! unlike documents they do not grow, and an unknown field in one is a mistake everywhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// API groups and kinds that the built-in reconcilers and the host know by name.
pub mod names {
    /// Group of `Gateway`, `HTTPRoute`, `GatewayClass` and `ReferenceGrant`.
    pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
    /// Group of `API`, `Policy` and `Backend`.
    pub const CHITON_GROUP: &str = "chiton.dev";
    /// Group of `EndpointSlice`.
    pub const DISCOVERY_GROUP: &str = "discovery.k8s.io";
    /// The `spec.controllerName` of the `GatewayClass`es that this control plane serves.
    pub const CONTROLLER: &str = "chiton.dev/gateway-controller";
}

/// A group and a kind. The core group is the empty string.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupKind {
    /// API group, for example `gateway.networking.k8s.io`; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind, for example `HTTPRoute`.
    pub kind: String,
}

impl GroupKind {
    /// A group and kind from their names.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// The identity of one object. Versions are not part of it: `v1` and `v1beta1` of a kind are one.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectRef {
    /// An identity from its four parts.
    pub fn new(
        group: impl Into<String>,
        kind: impl Into<String>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The group and kind of the object.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.clone(), self.kind.clone())
    }

    /// Whether the object is of this group and kind.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// `Kind namespace/name`, as people read it in messages.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// A parent as a route names it, completed with the defaults of the Gateway API: what a
/// `status.parents[].parentRef` repeats.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParentRef {
    /// The parent object.
    pub object: ObjectRef,
    /// A section of the parent: a listener of a Gateway, a rule of a route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// The port of the listeners that are meant; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl fmt::Display for ParentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        if let Some(section) = &self.section {
            write!(f, " section {section}")?;
        }
        if let Some(port) = self.port {
            write!(f, " port {port}")?;
        }
        Ok(())
    }
}
