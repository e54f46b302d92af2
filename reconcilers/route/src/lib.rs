//! The built-in route reconciler.
