//! The harness of the end-to-end tests and the demo: real processes, real requests.
//!
//! Everything it starts ends with the value that stands for it, also when a test panics. Nothing
//! sleeps for a fixed time: [`wait::until`] asks again until the answer is right or patience ends.

pub mod backend;
pub mod command;
pub mod envoy;
pub mod host;
pub mod http;
pub mod load;
pub mod manifests;
pub mod metrics;
pub mod module;
pub mod paths;
pub mod process;
pub mod quickstart;
pub mod wait;

pub mod world;

pub use backend::Backend;
pub use host::Host;
pub use load::Load;
pub use metrics::Metrics;
pub use world::World;
