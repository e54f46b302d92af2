//! Saving what is served, in the background.

use super::file;
use super::format::State;
use crate::pipeline::World;
use crate::status::Board;
use crate::synchronizer::holding::AcceptedForms;
use chiton_xds::{Resource, Server};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// A save costs what is there, so after one that took long the next waits this many times as long:
/// however fast things change, saving takes at most this part of one core.
const REST: u32 = 30;

/// How long to wait after a save that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Counters of saves.
#[derive(Clone, Debug)]
pub struct Metrics {
    seconds: Histogram,
    failures: IntCounter,
    epoch: IntGauge,
}

impl Metrics {
    /// Counters that are in `registry`.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let seconds = HistogramOpts::new("chiton_checkpoint_seconds", "Time to save a checkpoint")
            .buckets(prometheus::exponential_buckets(0.001, 4.0, 8)?);
        let metrics = Self {
            seconds: Histogram::with_opts(seconds)?,
            failures: IntCounter::new(
                "chiton_checkpoint_failures_total",
                "Checkpoints that could not be saved",
            )?,
            epoch: IntGauge::new(
                "chiton_checkpoint_epoch",
                "Number of the epoch that the saved checkpoint holds",
            )?,
        };
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        registry.register(Box::new(metrics.epoch.clone()))?;
        Ok(metrics)
    }
}

/// The task that saves what is served.
#[derive(Debug)]
pub struct Keeper {
    /// Where to.
    pub path: PathBuf,
    /// The least time from the end of one save to the start of the next.
    pub interval: Duration,
    /// What is served.
    pub xds: Server,
    /// The world that it was assembled from.
    pub board: Arc<Board>,
    /// [`super::Checkpoint::accepted`]. Told, from when the host is ready on, whenever something else
    /// is served.
    pub changes: watch::Receiver<Arc<AcceptedForms>>,
    /// Counters.
    pub metrics: Metrics,
}

impl Keeper {
    /// Saves what changes until `stop` is cancelled, and then what has not been saved.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut rest = Duration::ZERO;
        let mut failing = false;
        loop {
            tokio::select! {
                // Changes first: the last ones are saved at the end.
                biased;
                // Whoever told of changes has ended, and so will this.
                changed = self.changes.changed() => if changed.is_err() { return Ok(()) },
                () = stop.cancelled() => return Ok(()),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(rest) => {}
            }
            self.changes.mark_unchanged();
            let (took, result) = self.save().await?;
            rest = self.interval.max(took * REST);
            if let Err(error) = result {
                // Told again, a full disk would only fill the log.
                if !failing {
                    self.warn(&error);
                }
                self.metrics.failures.inc();
                rest = rest.max(AFTER_FAILURE);
                self.changes.mark_changed();
                failing = true;
            } else if std::mem::take(&mut failing) {
                info!("the checkpoint is saved again");
            }
            if stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    fn warn(&self, error: &io::Error) {
        warn!(
            file = %self.path.display(),
            "the checkpoint cannot be saved, so a host that starts next would serve what is older \
             until it is ready: {error}; make room, or give another folder with --data-dir"
        );
    }

    async fn save(&self) -> anyhow::Result<(Duration, io::Result<()>)> {
        let (path, xds, world) = (self.path.clone(), self.xds.clone(), self.board.world());
        let accepted = self.changes.borrow().clone();
        let epoch = world.epoch;
        let (took, result) = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let result = save(&path, &xds, &world, &accepted);
            (started.elapsed(), result)
        })
        .await?;
        if result.is_ok() {
            debug!(epoch, ?took, "the checkpoint is saved");
            self.metrics.seconds.observe(took.as_secs_f64());
            self.metrics
                .epoch
                .set(i64::try_from(epoch).unwrap_or(i64::MAX));
        }
        Ok((took, result))
    }
}

fn save(path: &Path, xds: &Server, world: &World, accepted: &AcceptedForms) -> io::Result<()> {
    let served: BTreeMap<String, Vec<Resource>> = xds
        .groups()
        .into_iter()
        .map(|group| {
            let resources = xds.resources(&group);
            (group, resources)
        })
        .collect();
    let state = State {
        served: &served,
        world,
        accepted,
    };
    file::write(path, state)
}
