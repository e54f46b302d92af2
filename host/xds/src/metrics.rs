//! Counters to be read by whoever exports metrics.

use crate::ResourceType;
use crate::per_type::PerType;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened since the server was made. All may be read at any time.
#[derive(Debug, Default)]
pub struct Metrics {
    sent: PerType<AtomicU64>,
    removed: PerType<AtomicU64>,
    responses: PerType<AtomicU64>,
    nacks: PerType<AtomicU64>,
    streams: AtomicU64,
    streams_opened: AtomicU64,
}

impl Metrics {
    /// Resources sent, of one type.
    #[must_use]
    pub fn resources_sent(&self, kind: ResourceType) -> u64 {
        read(&self.sent[kind])
    }

    /// Names told as removed, of one type.
    #[must_use]
    pub fn resources_removed(&self, kind: ResourceType) -> u64 {
        read(&self.removed[kind])
    }

    /// Responses sent, of one type.
    #[must_use]
    pub fn responses_sent(&self, kind: ResourceType) -> u64 {
        read(&self.responses[kind])
    }

    /// Responses rejected by clients, of one type.
    #[must_use]
    pub fn nacks(&self, kind: ResourceType) -> u64 {
        read(&self.nacks[kind])
    }

    /// Streams that are open now.
    #[must_use]
    pub fn streams(&self) -> u64 {
        read(&self.streams)
    }

    /// Streams opened since the start.
    #[must_use]
    pub fn streams_opened(&self) -> u64 {
        read(&self.streams_opened)
    }

    pub(crate) fn count_response(&self, kind: ResourceType, sent: usize, removed: usize) {
        self.responses[kind].fetch_add(1, Ordering::Relaxed);
        self.sent[kind].fetch_add(sent as u64, Ordering::Relaxed);
        self.removed[kind].fetch_add(removed as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_nack(&self, kind: ResourceType) {
        self.nacks[kind].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.streams_opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
