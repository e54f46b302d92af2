//! The synchronizer's task: batches of events in, resources to the xDS server and findings to the
//! board out.

use super::gate::Gate;
use crate::envoy::port_is_free;
use crate::modules::Registry;
use crate::pipeline::World;
use crate::pipeline::channel::{Batch, Events};
use crate::status::Board;
use crate::synchronizer::holding::{Blamed, Holder};
use crate::synchronizer::{DEFAULT_FLEET, Delta};
use chiton_xds::Server;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// How often a listener that waits for its port is tried again.
const RETRY_PORT: Duration = Duration::from_secs(2);

/// What the task works with.
#[derive(Debug)]
pub(super) struct Publisher {
    pub holder: Holder,
    pub modules: Arc<Registry>,
    pub events: Arc<Events>,
    pub board: Arc<Board>,
    pub xds: Server,
    /// Beside a managed Envoy.
    pub gate: Option<Gate>,
}

impl Publisher {
    /// Runs until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut answers = self.xds.ledger().changes();
        let mut world = World::default();
        loop {
            let waiting = self.gate.as_ref().is_some_and(Gate::is_waiting);
            let deadline = self.holder.deadline();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                batch = self.events.next() => {
                    self.apply(&batch);
                    world = batch.world;
                }
                // The server is alive as long as this task holds it.
                _ = answers.changed() => {}
                () = sleep_until(deadline) => {}
                () = tokio::time::sleep(RETRY_PORT), if waiting => self.retry(),
            }
            answers.mark_unchanged();
            self.listen(&world);
        }
    }

    fn apply(&mut self, batch: &Batch) {
        let delta = self.holder.apply(batch, &self.xds, Instant::now());
        self.publish(&batch.world, &delta);
        // The first batch is of an epoch over all that is listed.
        self.holder.start();
        self.xds.set_all_ready();
    }

    /// Acts on what proxies have said.
    fn listen(&mut self, world: &World) {
        while let Some(delta) = self.holder.answer(&self.xds, Instant::now()) {
            self.publish(world, &delta);
        }
        if let Some(notices) = self.holder.take_notices() {
            self.board.hold(notices);
        }
        for blamed in self.holder.take_blamed() {
            self.roll_back(&blamed);
        }
    }

    /// A swap whose results proxies refuse is undone.
    fn roll_back(&self, blamed: &Blamed) {
        let reason = format!(
            "proxies refuse what it returns for {}: {}",
            blamed.object, blamed.text
        );
        let (modules, name) = (self.modules.clone(), blamed.module.clone());
        // It writes to the disk.
        tokio::task::spawn_blocking(move || modules.roll_back(&name, &reason));
    }

    fn publish(&mut self, world: &World, delta: &Delta) {
        for (fleet, changes) in &delta.resources {
            let changes = match &mut self.gate {
                Some(gate) => gate.pass(changes.clone(), port_is_free),
                None => changes.clone(),
            };
            self.xds.publish(fleet, changes);
        }
        self.note_withheld();
        self.board.update(world.clone(), delta);
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

/// Sleeps for ever without a time.
async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
