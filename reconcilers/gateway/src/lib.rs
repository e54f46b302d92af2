//! The built-in gateway reconciler.
