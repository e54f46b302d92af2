//! An xDS server: keyed resources in, ADS out (delta, with and without VHDS, and state of the world),
//! and a ledger of what each client acknowledged.
//!
//! Clients (proxies) come in groups, named by `node.cluster`. [`Server::publish`] changes the
//! resources of a group; every client of the group is brought there with as few messages as the
//! protocol and the order of dependencies allow. Nobody is told anything before
//! [`Server::set_ready`]. [`Server::programmed`] says whether the clients have taken it, and
//! [`Ledger::changes`] when to ask again.

#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod inline;
mod ledger;
mod metrics;
mod per_type;
mod resource;
mod rows;
mod server;
mod session;
mod snapshot;
mod stream;

pub use ledger::{
    Expected, Ledger, NackSummary, Possession, Programmed, ProxySummary, Rejection, RejectionEvent,
    TypeSummary,
};
pub use metrics::Metrics;
pub use resource::{Change, Resource, ResourceName, ResourceType, version_of};
pub use server::{Listener, Options, ServeError, Server};
