//! The documents that cross the boundary between the Chiton host and its reconcilers.
//!
//! The WIT contract types the protocol (identities, reads, outcome, conditions); what grows with
//! Kubernetes, the Gateway API and Envoy crosses it as JSON, and the types of that JSON are here.
//! Host and guest SDK use the same types; golden files and recordings are these documents.
//!
//! Rules for changing a document: a field is only ever added, and only as an optional one; a
//! meaning never changes under a name. So a reconciler may read documents of a newer host: it ignores
//! the fields that it does not know. The host is strict about what it is given: a field or an effect
//! that it does not know is an error on the object it came from, because a policy that is half
//! understood would be worse than one that is refused.
//!
//! | document | produced by | read by |
//! | --- | --- | --- |
//! | [`gateway::Gateway`] (`gateway`) | gateway reconcilers | route reconcilers, the host |
//! | [`route::Route`] (`route`) | route reconcilers | API reconcilers, the host |
//! | [`api::Api`] (`api`) | API reconcilers | the host |
//! | [`policy::Policy`] (`policy`) | policy reconcilers | the host, route reconcilers that ask |
//!
//! The kinds of `chiton.dev/v1alpha1` that people write are in [`kinds`].

pub mod api;
pub mod check;
pub mod condition;
pub mod gateway;
pub mod identity;
pub mod kinds;
pub mod policy;
pub mod route;

pub use condition::{Condition, ConditionStatus, Scope};
pub use identity::{GroupKind, ObjectRef, ParentRef};

/// Names of the documents that a reconciler may return, as they stand in the outcome.
pub mod documents {
    /// [`crate::gateway::Gateway`].
    pub const GATEWAY: &str = "gateway";
    /// [`crate::route::Route`].
    pub const ROUTE: &str = "route";
    /// [`crate::api::Api`].
    pub const API: &str = "api";
    /// [`crate::policy::Policy`].
    pub const POLICY: &str = "policy";
}
