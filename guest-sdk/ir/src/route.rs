//! The `route` document: what an HTTPRoute (or another kind of route) asks for.

use crate::identity::{ObjectRef, ParentRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a route reconciler returns.
///
/// A route of which every rule is invalid is not accepted, as its conditions say, and does not count
/// among a listener's routes; its rules are here all the same, so that the requests that they match
/// get 500 and do not fall to a wider route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Parents of ours that the route names, accepted or not.
    pub parents: Vec<RouteParent>,
    /// Rules in the order of the spec.
    pub rules: Vec<Rule>,
}

/// One parent and the listeners of it that the route attaches to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteParent {
    /// The parent as the route names it.
    pub parent: ParentRef,
    /// Listeners of the parent that accepted the route; empty if none did.
    pub listeners: Vec<RouteListener>,
}

/// One attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteListener {
    /// Name of the listener.
    pub name: String,
    /// Hostnames that both the listener and the route mean, lower case, sorted, at least one;
    /// `*` when neither names any.
    pub hostnames: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Name by which policies target the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Alternatives, at least one; each is a conjunction.
    pub matches: Vec<Match>,
    /// Filters in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    /// Where requests go, by weight. With none and no redirect the answer is 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
    /// Time limits.
    #[serde(default, skip_serializing_if = "Timeouts::is_default")]
    pub timeouts: Timeouts,
    /// Set if the rule is invalid: the host answers its requests with 500 and ignores the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid: bool,
}

/// What a request must have for a rule to take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Path.
    pub path: PathMatch,
    /// Headers, all of which must match; names lower case, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
    /// Query parameters, all of which must match; each name once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<ValueMatch>,
    /// Method, upper case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

impl Default for Match {
    /// Every request: the prefix `/`.
    fn default() -> Self {
        Self {
            path: PathMatch::Prefix("/".into()),
            headers: Vec::new(),
            query: Vec::new(),
            method: None,
        }
    }
}

/// How a path is compared. Comparison is case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    /// The whole path.
    Exact(String),
    /// Whole elements: `/foo` takes `/foo`, `/foo/` and `/foo/bar`, not `/foobar`.
    Prefix(String),
    /// An RE2 expression for the whole path.
    Regex(String),
}

/// How a header or query parameter is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValueMatch {
    /// Name.
    pub name: String,
    /// Value.
    pub value: StringMatch,
}

/// How a value is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StringMatch {
    /// The whole value.
    Exact(String),
    /// An RE2 expression for the whole value.
    Regex(String),
}

/// A filter of a rule, or of one backend of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Filter {
    /// Changes request headers.
    RequestHeaders(HeaderChange),
    /// Changes response headers.
    ResponseHeaders(HeaderChange),
    /// Answers with a redirect. Not for a backend.
    Redirect(Redirect),
    /// Changes host and path of the request. Not for a backend.
    Rewrite(Rewrite),
    /// Sends a copy of the request to another backend, whose answer is ignored.
    Mirror(Mirror),
}

/// A change of headers: first removed, then set (replaced), then added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderChange {
    /// Headers to replace or create.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Header>,
    /// Headers to add beside what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<Header>,
    /// Names of headers to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A header and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name.
    pub name: String,
    /// Value, without CR, LF or NUL.
    pub value: String,
}

/// A redirect; what is absent stays as the request had it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Port; absent: that of the scheme if one is given, else the listener's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A rewrite; what is absent stays as the request had it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rewrite {
    /// Host header for the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Path for the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

/// How a path is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathChange {
    /// The whole path.
    Full(String),
    /// The matched prefix. Only in rules whose matches are all prefixes.
    Prefix(String),
}

/// A mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// Where copies go.
    pub backend: BackendTarget,
    /// The share of requests that is copied, as numerator and denominator; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<(u32, u32)>,
}

/// A backend of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Where requests go.
    pub target: BackendTarget,
    /// Share of the rule's requests: weight / sum of weights. 0: none. Up to 1,000,000.
    pub weight: u32,
    /// Filters for this backend's requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

/// A reference to a backend, which the host follows: it checks that the object exists and that a
/// `ReferenceGrant` allows it where it is in another namespace.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct BackendTarget {
    /// A `Service` or a `Backend`; another kind is answered with 500 for its share, and the
    /// condition `ResolvedRefs` says `InvalidKind`.
    pub object: ObjectRef,
    /// Port of the Service; needed there. For a `Backend` it is not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Time limits of a rule, in milliseconds. Absent: none; 0: none either, as the Gateway API says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// From the first byte of the request to the last of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_ms: Option<u64>,
    /// One try at a backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request_ms: Option<u64>,
}

impl Timeouts {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
