//! What is known of kinds without asking an API server.

use crate::store::Change;
use chiton_ir::GroupKind;
use chiton_ir::identity::names::{CHITON_GROUP, DISCOVERY_GROUP, GATEWAY_GROUP};

/// A kind that the host itself knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Versions whose form is understood. The first is the one to recommend.
    pub versions: &'static [&'static str],
}

impl Known {
    /// Group and kind.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group, self.kind)
    }
}

const fn known(
    group: &'static str,
    kind: &'static str,
    versions: &'static [&'static str],
) -> Known {
    Known {
        group,
        kind,
        versions,
    }
}

/// The kinds that are inputs of the built-in reconcilers and of the host. They are all synced once
/// the folder has been read for the first time. Objects of other kinds are stored all the same.
///
/// The `v1beta1` forms of the Gateway API differ from `v1` in nothing but the name.
pub const KINDS: &[Known] = &[
    known(GATEWAY_GROUP, "GatewayClass", &["v1", "v1beta1"]),
    known(GATEWAY_GROUP, "Gateway", &["v1", "v1beta1"]),
    known(GATEWAY_GROUP, "HTTPRoute", &["v1", "v1beta1"]),
    known(GATEWAY_GROUP, "ReferenceGrant", &["v1", "v1beta1"]),
    known(CHITON_GROUP, "API", &["v1alpha1"]),
    known(CHITON_GROUP, "Policy", &["v1alpha1"]),
    known(CHITON_GROUP, "Backend", &["v1alpha1"]),
    known("", "Service", &["v1"]),
    known(DISCOVERY_GROUP, "EndpointSlice", &["v1"]),
    known("", "Secret", &["v1"]),
    known("", "ConfigMap", &["v1"]),
    known("", "Namespace", &["v1"]),
];

/// The changes that mark kinds as synced: for those of [`KINDS`], and for the kinds that a module
/// declares. To be committed once [`super::watch`] has returned: then the folder has been read, and a
/// kind of which it holds nothing is known to have no objects.
pub fn synced(kinds: impl IntoIterator<Item = GroupKind>) -> Vec<Change> {
    kinds.into_iter().map(Change::Synced).collect()
}

pub(super) fn find(group: &str, kind: &str) -> Option<&'static Known> {
    KINDS
        .iter()
        .find(|known| known.group == group && known.kind == kind)
}

/// Cluster-scoped kinds by group. Any other kind is taken for namespaced, as nearly all are.
const CLUSTER_SCOPED: &[(&str, &[&str])] = &[
    (GATEWAY_GROUP, &["GatewayClass"]),
    (
        "",
        &["Namespace", "Node", "PersistentVolume", "ComponentStatus"],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "networking.k8s.io",
        &["IngressClass", "IPAddress", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["RuntimeClass"]),
    (
        "rbac.authorization.k8s.io",
        &["ClusterRole", "ClusterRoleBinding"],
    ),
    ("resource.k8s.io", &["DeviceClass", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
];

pub(super) fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    CLUSTER_SCOPED
        .iter()
        .any(|(of, kinds)| *of == group && kinds.contains(&kind))
}
