//! What one call of a module may use.

use std::time::Duration;

/// Messages that a call may log; what is over is counted and dropped.
pub const LOG_MESSAGES: usize = 64;

/// Limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time in the guest.
    pub time: Duration,
    /// Bytes of linear memory, all memories together.
    pub memory: usize,
    /// Bytes of all documents and messages together.
    pub output: usize,
    /// Bytes that are read through the host, all reads together.
    pub reads: usize,
    /// Bytes of log messages; what is over is counted and dropped.
    pub log: usize,
}

impl Default for Limits {
    /// What the contract promises a module whose manifest says nothing.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(1),
            memory: 64 << 20,
            output: 1 << 20,
            reads: 8 << 20,
            log: 16 << 10,
        }
    }
}
