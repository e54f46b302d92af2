//! An xDS server: keyed resources in, delta ADS with VHDS out.

mod resource;

pub use resource::{Change, Resource, ResourceName, ResourceType, version_of};
