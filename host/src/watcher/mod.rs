//! Where input objects come from.
//!
//! [`files`] reads a folder of manifests and follows it.

pub mod files;
