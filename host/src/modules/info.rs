//! What is shown of modules.

use crate::sandbox::Role;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a version of a module has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleState {
    /// Its bytes are here.
    Fetched,
    /// Manifest, size and digest are right.
    Verified,
    /// It is compiled, fits the contract and has described itself; it waits for its trial.
    Compiled,
    /// It did no worse than what is live on any object.
    Tried,
    /// It owns its objects.
    Live,
    /// A step failed: the reason says why. What was live before goes on.
    Refused,
    /// Its `ConfigMap` is gone, or another version took its place.
    Retired,
}

impl fmt::Display for ModuleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fetched => "fetched",
            Self::Verified => "verified",
            Self::Compiled => "compiled",
            Self::Tried => "tried",
            Self::Live => "live",
            Self::Refused => "refused",
            Self::Retired => "retired",
        })
    }
}

/// One version of one module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleInfo {
    /// Name.
    pub name: String,
    /// Version as the manifest gives it; empty if that could not be read.
    pub version: String,
    /// SHA-256 in hexadecimal; empty if there were no bytes.
    pub digest: String,
    /// `gateway`, `route`, `api` or `policy`; none if it is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Where it comes from: `built-in`, a file, or `ConfigMap <namespace>/<name>`.
    pub source: String,
    /// How far it has come.
    pub state: ModuleState,
    /// Why it is where it is; empty if all is well.
    pub reason: String,
    /// Calls since it went live.
    pub reconciles: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Since when it is live, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_since: Option<String>,
}

impl ModuleInfo {
    /// A version that is not live.
    pub(super) fn offered(name: &str, source: &str, state: ModuleState, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: String::new(),
            digest: String::new(),
            role: None,
            source: source.to_owned(),
            state,
            reason: reason.to_owned(),
            reconciles: 0,
            failures: 0,
            live_since: None,
        }
    }

    pub(super) fn with_role(mut self, role: Role) -> Self {
        self.role = Some(role.to_string());
        self
    }
}

/// The time now, in RFC 3339.
pub(super) fn now() -> String {
    k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
