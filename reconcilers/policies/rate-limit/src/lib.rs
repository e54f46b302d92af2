//! The built-in rate-limit policy.
