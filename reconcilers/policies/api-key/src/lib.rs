//! The built-in api-key policy.
