//! The layers of an epoch.

use crate::sandbox::Role;
use chiton_ir::documents;

/// A layer: reconcilers of one layer run in parallel and read only outputs of lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Gateways and policies.
    Base,
    /// Routes.
    Route,
    /// APIs.
    Api,
}

impl Layer {
    /// In the order in which they run.
    pub const ALL: [Self; 3] = [Self::Base, Self::Route, Self::Api];

    /// The layer whose reconcilers return a document of this name.
    #[must_use]
    pub fn of_document(name: &str) -> Option<Self> {
        match name {
            documents::GATEWAY | documents::POLICY => Some(Self::Base),
            documents::ROUTE => Some(Self::Route),
            documents::API => Some(Self::Api),
            _ => None,
        }
    }
}

impl From<Role> for Layer {
    fn from(role: Role) -> Self {
        match role {
            Role::Gateway | Role::Policy => Self::Base,
            Role::Route => Self::Route,
            Role::Api => Self::Api,
        }
    }
}
