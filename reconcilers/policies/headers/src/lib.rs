//! The built-in headers policy.
