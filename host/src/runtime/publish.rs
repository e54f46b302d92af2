//! The synchronizer's task: batches of events in, resources to the xDS server and findings to the
//! board out.

use super::gate::Gate;
use crate::envoy::port_is_free;
use crate::pipeline::channel::{Batch, Events};
use crate::status::Board;
use crate::synchronizer::{DEFAULT_FLEET, Synchronizer};
use chiton_xds::Server;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// How often a listener that waits for its port is tried again.
const RETRY_PORT: Duration = Duration::from_secs(2);

/// What the task works with.
#[derive(Debug)]
pub(super) struct Publisher {
    pub synchronizer: Synchronizer,
    pub events: Arc<Events>,
    pub board: Arc<Board>,
    pub xds: Server,
    /// Beside a managed Envoy.
    pub gate: Option<Gate>,
}

impl Publisher {
    /// Runs until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let waiting = self.gate.as_ref().is_some_and(Gate::is_waiting);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                batch = self.events.next() => self.publish(&batch),
                () = tokio::time::sleep(RETRY_PORT), if waiting => self.retry(),
            }
        }
    }

    fn publish(&mut self, batch: &Batch) {
        let delta = self.synchronizer.apply(batch);
        for (fleet, changes) in &delta.resources {
            let changes = match &mut self.gate {
                Some(gate) => gate.pass(changes.clone(), port_is_free),
                None => changes.clone(),
            };
            self.xds.publish(fleet, changes);
        }
        self.note_withheld();
        self.board.update(batch.world.clone(), &delta);
        // The first batch is of an epoch over all that is listed.
        self.xds.set_all_ready();
    }

    fn retry(&mut self) {
        let Some(gate) = &mut self.gate else { return };
        let changes = gate.retry(port_is_free);
        for change in &changes {
            info!(listener = %change.name().name, "the port is free now");
        }
        if !changes.is_empty() {
            self.xds.publish(DEFAULT_FLEET, changes);
            self.note_withheld();
        }
    }

    /// Says which listeners wait for their port, on the board and, once each, in the log.
    fn note_withheld(&self) {
        let Some(gate) = &self.gate else { return };
        let withheld = gate.withheld();
        for (name, why) in &withheld {
            if !self.board.is_withheld(name) {
                error!(listener = %name.name, "{why}");
            }
        }
        self.board.withhold(withheld);
    }
}
