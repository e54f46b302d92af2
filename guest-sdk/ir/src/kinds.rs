//! The kinds of `chiton.dev/v1alpha1` that people write.
//!
//! With the feature `crd` each has its `kube` resource type (`API`, `PolicyObject`, `BackendObject`),
//! from which the CRD YAML in `deploy/crds` is generated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Label of the `ConfigMap`s that hold modules.
pub const MODULE_LABEL: &str = "chiton.dev/module";

/// `API`: routes published under one base path and version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "crd", derive(kube::CustomResource))]
#[cfg_attr(
    feature = "crd",
    kube(
        group = "chiton.dev",
        version = "v1alpha1",
        kind = "API",
        root = "ApiObject",
        plural = "apis",
        namespaced,
        status = "Status",
        derive = "Default",
        derive = "PartialEq"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.production) || has(self.sandbox)",
    "message": "give production, sandbox or both",
}]))]
pub struct ApiSpec {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Path under which the API is served, for example `/orders`. Starts with `/`.
    #[schemars(
        regex(pattern = r"^/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*$"),
        length(max = 256)
    )]
    pub base_path: String,
    /// Version, for example `v1`. The API is served under `basePath/version`, unless `basePath`
    /// already ends with the version.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._~-]+$"), length(max = 64))]
    pub version: String,
    /// Whether this version is also served under the bare `basePath`.
    #[serde(default)]
    pub is_default_version: bool,
    /// The HTTPRoute that serves production, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub production: Option<LocalRoute>,
    /// The HTTPRoute that serves the sandbox, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<LocalRoute>,
    /// The header that chooses the sandbox. Unset: the hostnames of the two routes tell them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_header: Option<HeaderValue>,
    /// Where the API's definition is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRef>,
}

/// A reference to an HTTPRoute in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRoute {
    /// Name of the HTTPRoute.
    pub name: String,
}

/// A header name and the value it must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderValue {
    /// Header name.
    pub name: String,
    /// Value, compared exactly.
    pub value: String,
}

/// A reference to a `ConfigMap` with an OpenAPI, GraphQL or other definition. It is shown, not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionRef {
    /// Name of the `ConfigMap`.
    pub name: String,
    /// Key in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// `Policy`: one kind for all policies. `type` names the module that handles it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "crd", derive(kube::CustomResource))]
#[cfg_attr(
    feature = "crd",
    kube(
        group = "chiton.dev",
        version = "v1alpha1",
        kind = "Policy",
        root = "PolicyObject",
        plural = "policies",
        namespaced,
        status = "Status",
        derive = "Default",
        derive = "PartialEq"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.default) || has(self.override)",
    "message": "put the settings under default, override or both",
}]))]
pub struct PolicySpec {
    /// The module that handles the policy, for example `headers`.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    pub r#type: String,
    /// What the policy applies to, in its own namespace. 1 to 16.
    #[schemars(length(min = 1, max = 16))]
    pub target_refs: Vec<TargetRef>,
    /// Settings that something more specific may replace. The module says what may stand here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub default: Option<serde_json::Value>,
    /// Settings that nothing more specific may replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub r#override: Option<serde_json::Value>,
}

/// A target of a policy: a Gateway, an HTTPRoute or an API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.kind in ['Gateway', 'HTTPRoute'] ? self.group == 'gateway.networking.k8s.io' : self.kind == 'API' && self.group == 'chiton.dev'",
        "message": "target a Gateway or an HTTPRoute of gateway.networking.k8s.io, or an API of chiton.dev",
    },
    {
        "rule": "self.kind != 'API' || !has(self.sectionName)",
        "message": "an API has no sections",
    },
]))]
pub struct TargetRef {
    /// API group of the target.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Kind of the target: `Gateway`, `HTTPRoute` or `API`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Name of the target.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// A listener of the Gateway, or a named rule of the HTTPRoute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// `Backend`: what is not a Service. Either IP addresses or host names, not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "crd", derive(kube::CustomResource))]
#[cfg_attr(
    feature = "crd",
    kube(
        group = "chiton.dev",
        version = "v1alpha1",
        kind = "Backend",
        root = "BackendObject",
        plural = "backends",
        namespaced,
        status = "Status",
        derive = "Default",
        derive = "PartialEq"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    /// Where requests go, with equal shares. 1 to 64.
    #[schemars(length(min = 1, max = 64))]
    pub endpoints: Vec<BackendEndpoint>,
    /// What the backend speaks: `http` (default) or `h2c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<BackendProtocol>,
}

/// One endpoint of a [`BackendSpec`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendEndpoint {
    /// An IP address or a host name.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// TCP port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// What a backend speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackendProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS, prior knowledge.
    H2c,
}

/// Status, written by the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Conditions of the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
    /// Conditions per ancestor (GEP-713): Gateways, 16 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ancestors: Vec<StatusAncestor>,
    /// Conditions per target of a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<StatusTarget>,
}

/// A condition as it stands in status (`metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCondition {
    /// Type.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in one word.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// RFC 3339 time of the last change of `status`.
    pub last_transition_time: String,
    /// The `metadata.generation` that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Status of a policy at one ancestor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusAncestor {
    /// The Gateway.
    pub ancestor_ref: StatusTargetRef,
    /// Who wrote this.
    pub controller_name: String,
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<StatusCondition>,
}

/// Status of a policy at one of its targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusTarget {
    /// The target.
    pub target_ref: StatusTargetRef,
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<StatusCondition>,
}

/// A reference in status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusTargetRef {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

fn free_form(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
