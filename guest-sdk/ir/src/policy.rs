//! The `policy` document and the effects that a policy may have.

use crate::identity::ObjectRef;
use crate::route::HeaderChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a policy reconciler returns: effects on targets. The host attaches them; they never pass
/// through a route's or a gateway's reconciler.
///
/// For each kind of effect one policy wins at each place (GEP-713): override from above, override
/// from below, default from below, default from above. On one level the oldest wins, then the
/// first by namespace and name. The loser's status names the winner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// What it applies to; in its own namespace.
    pub targets: Vec<Target>,
    /// Effects that something more specific may replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default: Vec<Effect>,
    /// Effects that nothing more specific may replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub r#override: Vec<Effect>,
}

/// A target of a policy.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// A Gateway, an HTTPRoute or an API.
    pub object: ObjectRef,
    /// A listener of the Gateway, or a named rule of the route; absent: the whole object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
}

/// One effect. The names are the ones in JSON: `{"cors": {...}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Changes request headers.
    RequestHeaders(HeaderChange),
    /// Changes response headers.
    ResponseHeaders(HeaderChange),
    /// Cross-origin resource sharing.
    Cors(Cors),
    /// A local rate limit.
    RateLimit(RateLimit),
    /// Asks for an API key.
    ApiKey(ApiKey),
    /// Answers every request with this status, whatever else is configured.
    Respond(Respond),
}

impl Effect {
    /// The effect's name in JSON, which is also the unit of precedence.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RequestHeaders(_) => "requestHeaders",
            Self::ResponseHeaders(_) => "responseHeaders",
            Self::Cors(_) => "cors",
            Self::RateLimit(_) => "rateLimit",
            Self::ApiKey(_) => "apiKey",
            Self::Respond(_) => "respond",
        }
    }
}

/// Cross-origin resource sharing (Fetch standard, CORS protocol).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// A policy's settings are of this type too; there a misspelt one must not pass.
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins: `https://a.example`, `https://*.a.example` (any label before the rest), or `*`.
    pub allow_origins: Vec<String>,
    /// Methods for `access-control-allow-methods`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<String>,
    /// Headers for `access-control-allow-headers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<String>,
    /// Headers for `access-control-expose-headers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<String>,
    /// Whether credentials are allowed.
    #[serde(default)]
    pub allow_credentials: bool,
    /// Seconds a preflight answer may be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u32>,
}

/// A token bucket for each target of the policy, on each proxy and listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Requests allowed per interval, at least 1.
    pub requests: u32,
    /// The interval in milliseconds, at least 50.
    pub interval_ms: u64,
    /// How many requests may come at once; absent: `requests`. At least `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// Asks for an API key; a request without a valid one is answered with 401.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Secrets whose entries are the keys: the entry's name is the client, its value the key.
    /// References only; the host follows them.
    pub secrets: Vec<ObjectRef>,
    /// Where the key is looked for, in order, at least one.
    pub sources: Vec<KeySource>,
    /// The header in which the client's name goes to the backend; absent: it is not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_header: Option<String>,
}

/// A place where an API key may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeySource {
    /// A request header.
    Header(String),
    /// A query parameter.
    Query(String),
    /// A cookie.
    Cookie(String),
}

/// A fixed answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Respond {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Body, at most 4 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}
