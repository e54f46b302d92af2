//! Runs epochs for as long as the host lives.
//!
//! A change starts an epoch at once; what changes while it runs is folded into the next one.

use super::channel::Events;
use super::epoch::Engine;
use crate::modules::Modules;
use crate::store::{Changes, Store};
use anyhow::Context;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The longest sleep: after it the clock is looked at again, in case somebody has set it.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// Connects an [`Engine`] to the store, the modules and the channel of events.
#[derive(Debug)]
pub struct Driver {
    /// Inputs.
    pub store: Arc<Store>,
    /// Live modules, replaced whole.
    pub modules: watch::Receiver<Arc<Modules>>,
    /// Where events go.
    pub events: Arc<Events>,
    /// What runs.
    pub engine: Engine,
}

impl Driver {
    /// Runs until `stop` is cancelled. An epoch that runs then is left to itself.
    ///
    /// # Errors
    /// The engine panicked. There is nothing to go on with.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        while self.wait(&stop).await {
            let epoch = tokio::task::spawn_blocking(move || {
                self.epoch();
                self
            });
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                result = epoch => self = result.context("the pipeline stopped")?,
            }
        }
        Ok(())
    }

    fn epoch(&mut self) {
        let modules = self.modules.borrow_and_update().clone();
        self.engine.arrived(&self.store.feed().take());
        let report = self.engine.run(self.store.snapshot(), modules, now());
        if let Some(committed) = report.committed {
            let world = committed.world.as_ref().clone();
            self.events.push(committed.events, world);
        }
    }

    /// Waits for a reason to run; false once it is time to stop.
    async fn wait(&mut self, stop: &CancellationToken) -> bool {
        let ended = self.engine.run_ended();
        let stragglers = self.engine.has_stragglers();
        let sleep = match self.engine.next_wake() {
            Some(at) => at.saturating_sub(now()).min(LONGEST_SLEEP),
            None => LONGEST_SLEEP,
        };
        let feed = self.store.feed();
        let modules = &mut self.modules;
        let told = tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            changes = feed.next() => changes,
            () = changed(modules) => Changes::new(),
            () = ended.notified(), if stragglers => Changes::new(),
            () = tokio::time::sleep(sleep) => Changes::new(),
        };
        self.engine.arrived(&told);
        true
    }
}

/// Waits for other modules; for ever if there will be none.
async fn changed(modules: &mut watch::Receiver<Arc<Modules>>) {
    if modules.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The time since 1970.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
