//! The `gateway` document: the listeners that a Gateway asks for.

use crate::identity::{GroupKind, ObjectRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a gateway reconciler returns for a Gateway of a class that this control plane serves.
///
/// A Gateway of somebody else's class has no document, and no condition either. One of ours that is
/// refused as a whole has a document without listeners, so that its routes can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Listeners in the order of the spec, invalid ones included.
    pub listeners: Vec<Listener>,
    /// IP addresses that the Gateway asks for; none means the host's default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Name, unique in its Gateway.
    pub name: String,
    /// Hostname (`www.example.com` or `*.example.com`, lower case) that narrows its routes' ones;
    /// absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// TCP port, 1 to 65535.
    pub port: u16,
    /// What is spoken there. Without meaning for a listener of another protocol, which is not
    /// accepted and takes no kind of route.
    pub protocol: Protocol,
    /// Certificates; present for, and only for, [`Protocol::Https`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Which namespaces' routes may attach.
    pub namespaces: NamespaceScope,
    /// Which kinds of route may attach; becomes `supportedKinds` in the status.
    pub kinds: Vec<GroupKind>,
    /// False if the reconciler found the listener invalid or in conflict within its Gateway. Such a
    /// listener gets no traffic; the conditions say why.
    pub accepted: bool,
}

/// Protocols that a listener may speak.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// HTTP/1.1 and cleartext HTTP/2 with prior knowledge.
    Http,
    /// TLS terminated here; HTTP/2 and HTTP/1.1 by ALPN.
    Https,
}

/// How TLS is terminated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Secrets of type `kubernetes.io/tls`, in order. References only: the host follows them and
    /// checks grants and key pairs.
    pub certificates: Vec<ObjectRef>,
}

/// Which namespaces' routes may attach to a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NamespaceScope {
    /// The Gateway's own.
    Same,
    /// Every one.
    All,
    /// Those whose labels match.
    Selector(LabelSelector),
}

/// A label selector, as in `metav1.LabelSelector`: all requirements must hold.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have exactly this value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement on one label.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// Label key.
    pub key: String,
    /// How values are compared.
    pub operator: LabelOperator,
    /// Values for `In` and `NotIn`; empty for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Operators of a label requirement.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum LabelOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether an object with these labels is selected. An empty selector selects everything.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selects(|key| labels.get(key).map(String::as_str))
    }

    /// Whether an object is selected whose labels `value` knows.
    #[must_use]
    pub fn selects<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, wanted)| value(key) == Some(wanted.as_str()))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.allows(value(&requirement.key)))
    }
}

impl LabelRequirement {
    fn allows(&self, value: Option<&str>) -> bool {
        let is_listed = |value| self.values.iter().any(|listed| listed == value);
        match self.operator {
            LabelOperator::In => value.is_some_and(is_listed),
            LabelOperator::NotIn => !value.is_some_and(is_listed),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}
