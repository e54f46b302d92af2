//! The built-in cors policy.
