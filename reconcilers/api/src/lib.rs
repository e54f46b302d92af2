//! The built-in api reconciler.
