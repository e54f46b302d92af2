//! The Chiton host: a Kubernetes gateway control plane whose reconcile logic is WebAssembly.
//!
//! Data flows one way: [`watcher`] → [`store`] → [`pipeline`] (which calls guests in [`sandbox`])
//! → [`synchronizer`] → `chiton_xds` → Envoy. [`status`] joins what reconcilers, the synchronizer
//! and the proxies say of an object.

pub mod admin;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod envoy;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod laws;
pub mod modules;
pub mod pipeline;
pub mod runtime;
pub mod sandbox;
pub mod status;
pub mod store;
pub mod synchronizer;
pub mod watcher;
mod whole_file;
