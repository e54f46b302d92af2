//! The `api` document: an API as a composition of routes.

use crate::identity::ObjectRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an API reconciler returns.
///
/// A route that an API names is served only through APIs: each of its rules is served once under
/// each prefix, which is stripped before the route's own rewrite and put back into its redirects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Api {
    /// Path prefixes, without a slash at the end (`/orders/v1`); the empty string is the root. The
    /// first is the canonical one.
    pub prefixes: Vec<String>,
    /// The route that serves production.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub production: Option<ObjectRef>,
    /// The route that serves the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<ObjectRef>,
    /// The header that chooses the sandbox; absent: the two routes' own hostnames do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_header: Option<SandboxHeader>,
}

/// A request with this header and value is for the sandbox, every other for production.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxHeader {
    /// Header name, lower case.
    pub name: String,
    /// Value, compared exactly.
    pub value: String,
}
