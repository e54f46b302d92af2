//! What the pipeline counts.

use crate::sandbox::Failure;
use crate::store::{Key, Snapshot};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use std::time::Duration;

/// Upper bounds of the buckets of run times, in seconds: a fresh instance takes some 20 µs.
const BUCKETS: &[f64] = &[
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.005, 0.025, 0.1, 0.5, 2.0,
];

/// Upper bounds of the buckets of waiting times, in seconds.
const WAITS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Counters of the pipeline.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: IntCounterVec,
    seconds: HistogramVec,
    epochs: IntCounter,
    objects: IntGaugeVec,
    residual: IntCounterVec,
    waits: Histogram,
}

impl Metrics {
    /// Counters that are shown by `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new(
                    "chiton_reconciles_total",
                    "Reconciles by module and outcome.",
                ),
                &["module", "outcome"],
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new("chiton_reconcile_seconds", "Time of a reconcile.")
                    .buckets(BUCKETS.to_vec()),
                &["module"],
            )?,
            epochs: IntCounter::new("chiton_epochs_total", "Epochs committed.")?,
            objects: IntGaugeVec::new(
                Opts::new("chiton_store_objects", "Objects in the store by kind."),
                &["kind"],
            )?,
            residual: IntCounterVec::new(
                Opts::new(
                    "chiton_residual_selectors_total",
                    "Selectors that no index could find and that were checked against a changed \
                     object, by its kind: what lists without =, In and Exists cost.",
                ),
                &["kind"],
            )?,
            waits: Histogram::with_opts(
                HistogramOpts::new(
                    "chiton_change_wait_seconds",
                    "Time from a change of an object, or of what it read, to the commit of the epoch \
                     that took it up.",
                )
                .buckets(WAITS.to_vec()),
            )?,
        };
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.epochs.clone()))?;
        registry.register(Box::new(metrics.objects.clone()))?;
        registry.register(Box::new(metrics.residual.clone()))?;
        registry.register(Box::new(metrics.waits.clone()))?;
        Ok(metrics)
    }

    pub(super) fn ran(&self, module: &str, outcome: Outcome, took: Duration) {
        self.reconciles
            .with_label_values(&[module, outcome.label()])
            .inc();
        self.seconds
            .with_label_values(&[module])
            .observe(took.as_secs_f64());
    }

    /// Selectors of residual buckets were checked against a changed object.
    pub(super) fn checked(&self, object: &Key, residual: usize) {
        if residual > 0 {
            let kind = object.group_kind().to_string();
            let residual = u64::try_from(residual).unwrap_or(u64::MAX);
            self.residual.with_label_values(&[kind]).inc_by(residual);
        }
    }

    /// An object was taken up after this time.
    pub(super) fn waited(&self, time: Duration) {
        self.waits.observe(time.as_secs_f64());
    }

    /// Number of epochs.
    #[cfg(test)]
    pub(super) fn epochs(&self) -> u64 {
        self.epochs.get()
    }

    /// Number of objects that were taken up.
    #[cfg(test)]
    pub(super) fn waits(&self) -> u64 {
        self.waits.get_sample_count()
    }

    pub(super) fn committed(&self, inputs: &Snapshot) {
        self.epochs.inc();
        for (kind, count) in inputs.counts() {
            self.objects
                .with_label_values(&[kind.to_string()])
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Runs of a module that ended so.
    #[cfg(test)]
    pub(super) fn count(&self, module: &str, outcome: Outcome) -> u64 {
        self.reconciles
            .with_label_values(&[module, outcome.label()])
            .get()
    }
}

/// How a run ended, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    NotReady,
    NotSynced,
    ModuleFailed,
    HostFailed,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotReady => "not_ready",
            Self::NotSynced => "not_synced",
            Self::ModuleFailed => "module_failed",
            Self::HostFailed => "host_failed",
        }
    }
}

impl From<&Failure> for Outcome {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Module(_) => Self::ModuleFailed,
            Failure::Host(_) => Self::HostFailed,
            Failure::NotSynced(_) => Self::NotSynced,
        }
    }
}
