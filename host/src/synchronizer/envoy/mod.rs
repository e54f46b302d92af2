//! From [`super::model`] to Envoy's messages (xDS v3), and from these to text.
//!
//! Every function here is pure: the same value gives the same bytes on every host, so that a
//! version, which is a hash of them, says whether two hosts serve the same. Decisions were made
//! before; what Envoy would refuse was found before, by [`checks`].
//!
//! What the proxies are told beyond the Gateway API, and why, stands where it is encoded:
//! [`listener`] (client side), [`filters`] (the HTTP filters and how they are switched on),
//! [`cluster`] (backend side).

pub mod checks;
mod cluster;
mod cors;
mod effects;
mod filters;
mod headers;
mod listener;
mod print;
mod rate_limit;
mod redirect;
mod regex;
mod rewrite;
mod route_action;
mod route_config;
mod route_match;
mod secrets;
mod tls;
mod virtual_host;
mod wire;

pub use cluster::{UNRESOLVED_CLUSTER, cluster, endpoints};
pub use filters::rate_limit_name;
pub use listener::listener;
pub use print::{PrintError, print};
pub use rate_limit::rate_limits;
pub use route_config::route_config;
pub use secrets::holds_secrets;
pub use tls::tls_secret;
pub use virtual_host::{INERT_HOSTNAME, inert_virtual_host, misses_preflights, virtual_host};

/// Envoy's messages.
pub(crate) use envoy_types::pb;
