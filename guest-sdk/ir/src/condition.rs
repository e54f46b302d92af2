//! Conditions: what status says about an object.
//!
//! A reconciler returns conditions without times; the host adds `observedGeneration` and the time
//! of the last transition where status is written.

use crate::identity::ParentRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Condition types and reasons that more than one part uses. The words are those of the Gateway API.
pub mod words {
    #![allow(missing_docs)]
    pub const ACCEPTED: &str = "Accepted";
    pub const PROGRAMMED: &str = "Programmed";
    pub const RESOLVED_REFS: &str = "ResolvedRefs";
    pub const CONFLICTED: &str = "Conflicted";
    pub const INVALID: &str = "Invalid";
    pub const PENDING: &str = "Pending";
    pub const UNSUPPORTED_VALUE: &str = "UnsupportedValue";
}

/// Truth of a condition, as in `metav1.Condition`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

/// What part of an object's status a condition belongs to.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// The object itself: `status.conditions`.
    #[default]
    Object,
    /// A named section, for example a listener: `status.listeners[].conditions`.
    Section(String),
    /// A parent of a route (`status.parents[]`) or an ancestor of a policy (`status.ancestors[]`).
    Parent(ParentRef),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Where in the status it stands.
    #[serde(default)]
    pub scope: Scope,
    /// Type in CamelCase, for example `Accepted`.
    pub r#type: String,
    /// Truth.
    pub status: ConditionStatus,
    /// One word in CamelCase for programs, for example `NoMatchingParent`.
    pub reason: String,
    /// A sentence for people: what is wrong, with which object, what to do.
    #[serde(default)]
    pub message: String,
}

impl Condition {
    /// A condition that holds.
    #[must_use]
    pub fn holds(r#type: &str, reason: &str) -> Self {
        Self {
            scope: Scope::Object,
            r#type: r#type.to_owned(),
            status: ConditionStatus::True,
            reason: reason.to_owned(),
            message: String::new(),
        }
    }

    /// A condition that does not hold, with the sentence that says why and what to do.
    pub fn fails(r#type: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            scope: Scope::Object,
            r#type: r#type.to_owned(),
            status: ConditionStatus::False,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// The same condition in another place of the status.
    #[must_use]
    pub fn at(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }
}
