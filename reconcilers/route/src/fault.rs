//! What is wrong with a rule.

use std::fmt;

/// Reason of a value that this project does not support or that is not one.
pub const UNSUPPORTED_VALUE: &str = "UnsupportedValue";
/// Reason of filters that contradict each other, or what else is in their rule.
pub const INCOMPATIBLE_FILTERS: &str = "IncompatibleFilters";

/// A mistake that makes a rule invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Path of the field.
    pub path: String,
    /// What is wrong, the predicate of a sentence.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The mistakes of one rule, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// Notes a value that is not supported.
    pub fn value(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.note(UNSUPPORTED_VALUE, path, message);
    }

    /// Notes filters that contradict something.
    pub fn filters(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.note(INCOMPATIBLE_FILTERS, path, message);
    }

    /// Notes what a check found, if it found something; whether the value is good.
    pub fn check(&mut self, path: impl Into<String>, verdict: Result<(), String>) -> bool {
        match verdict {
            Ok(()) => true,
            Err(message) => {
                self.value(path, message);
                false
            }
        }
    }

    fn note(&mut self, reason: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault {
            reason,
            path: path.into(),
            message: message.into(),
        });
    }
}

/// A port as the Gateway API has it, 1 to 65535.
pub fn port(value: i32) -> Result<u16, String> {
    match u16::try_from(value) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{value} is not a port: 1 to 65535")),
    }
}
