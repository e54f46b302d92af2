//! The synchronizer's task: batches of events in, resources to the xDS server and findings to the
//! board out.
//!
//! Until the host is ready it assembles, and publishes nothing: proxies have what the checkpoint held,
//! or silence. Then what was assembled replaces that at once.

use super::gate::Gate;
use super::ready::Readiness;
use crate::checkpoint::Fleet;
use crate::envoy::{self, port_is_free};
use crate::modules::Registry;
use crate::pipeline::World;
use crate::pipeline::channel::{Batch, Events};
use crate::status::Board;
use crate::synchronizer::holding::{AcceptedForms, Blamed, Holder};
use crate::synchronizer::{DEFAULT_FLEET, Delta};
use chiton_xds::{Change, Resource, ResourceName, ResourceType, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// How often a listener that waits for its port is tried again, and Envoy asked whether it has left
/// one.
const RETRY_PORT: Duration = Duration::from_secs(2);

/// How often to look whether the host is ready, until it is: not all that it waits for is an epoch.
const LOOK: Duration = Duration::from_millis(100);

/// What is done with what the synchronizer assembles.
#[derive(Debug)]
pub(super) struct Publisher {
    holder: Holder,
    modules: Arc<Registry>,
    events: Arc<Events>,
    board: Arc<Board>,
    xds: Server,
    readiness: Arc<Readiness>,
    /// Tells that something else is served, for the checkpoint.
    saves: watch::Sender<Arc<AcceptedForms>>,
    /// What was assembled until the host is ready; none afterwards.
    pending: Option<Pending>,
    envoy: Option<Beside>,
}

/// A managed Envoy, beside which ports may be taken.
#[derive(Debug)]
pub(super) struct Beside {
    gate: Gate,
    admin_socket: PathBuf,
    /// Its answer to where it listens, while it is being asked.
    asked: Option<JoinHandle<io::Result<BTreeSet<SocketAddr>>>>,
}

impl Beside {
    /// An Envoy with this admin interface.
    pub fn new(gate: Gate, admin_socket: PathBuf) -> Self {
        Self {
            gate,
            admin_socket,
            asked: None,
        }
    }
}

/// Everything that was assembled.
#[derive(Debug, Default)]
struct Pending {
    world: World,
    fleets: BTreeMap<String, BTreeMap<ResourceName, Resource>>,
    findings: Delta,
}

impl Pending {
    fn add(&mut self, world: &World, delta: Delta) {
        self.world = world.clone();
        self.findings.findings.extend(delta.findings);
        for (fleet, changes) in delta.resources {
            let resources = self.fleets.entry(fleet).or_default();
            for change in changes {
                change.apply(resources);
            }
        }
    }
}

impl Publisher {
    /// A publisher that has published nothing.
    pub fn new(
        holder: Holder,
        modules: Arc<Registry>,
        events: Arc<Events>,
        board: Arc<Board>,
        xds: Server,
        readiness: Arc<Readiness>,
        envoy: Option<Beside>,
    ) -> Self {
        Self {
            holder,
            modules,
            events,
            board,
            xds,
            readiness,
            saves: watch::Sender::default(),
            pending: Some(Pending::default()),
            envoy,
        }
    }

    /// Told whenever something else is served, from when the host is ready on.
    pub fn saves(&self) -> watch::Receiver<Arc<AcceptedForms>> {
        self.saves.subscribe()
    }

    /// Has proxies served what a checkpoint holds, until the host is ready.
    pub fn restore(&mut self, fleets: BTreeMap<String, Fleet>) {
        for (fleet, saved) in fleets {
            let resources = self.pass_all(saved.servable());
            // Of secrets the checkpoint knows nothing but names: silence, not removals.
            let restored = self.xds.restore(&fleet, resources, &[ResourceType::Secret]);
            debug_assert!(restored, "nothing has been published before");
        }
        self.note_withheld();
    }

    /// Runs until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut answers = self.xds.ledger().changes();
        let mut retry = tokio::time::interval(RETRY_PORT);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut world = World::default();
        loop {
            let waiting = self.envoy.as_ref().is_some_and(|envoy| {
                envoy.gate.is_waiting() || (envoy.gate.has_left_over() && envoy.asked.is_none())
            });
            let deadline = self.holder.deadline(Instant::now());
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                batch = self.events.next() => {
                    self.apply(&batch);
                    world = batch.world;
                }
                // The server is alive as long as this task holds it.
                _ = answers.changed() => {}
                () = sleep_until(deadline) => {}
                _ = retry.tick(), if waiting => self.retry(),
                bound = answer(&mut self.envoy) => self.forget(bound),
                _ = look.tick(), if self.pending.is_some() => self.try_ready(),
            }
            answers.mark_unchanged();
            if self.pending.is_none() {
                self.listen(&world);
            }
        }
    }

    fn apply(&mut self, batch: &Batch) {
        let delta = self.holder.apply(batch, &self.xds, Instant::now());
        self.publish(&batch.world, delta);
    }

    /// Acts on what proxies have said.
    fn listen(&mut self, world: &World) {
        while let Some(delta) = self.holder.answer(&self.xds, Instant::now()) {
            self.publish(world, delta);
        }
        if let Some(notices) = self.holder.take_notices() {
            self.board.hold(notices);
            self.save();
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

    fn publish(&mut self, world: &World, delta: Delta) {
        if let Some(pending) = &mut self.pending {
            pending.add(world, delta);
            self.try_ready();
            return;
        }
        for (fleet, changes) in &delta.resources {
            let changes = self.pass(changes.clone());
            self.xds.publish(fleet, changes);
        }
        self.note_withheld();
        self.board.update(world.clone(), &delta);
        self.save();
    }

    /// Tells that there is something to be saved.
    fn save(&self) {
        let accepted = self.holder.accepted_forms();
        self.saves.send_replace(Arc::new(accepted));
    }

    /// Tells proxies the truth, if it is known whole.
    fn try_ready(&mut self) {
        let pending = self.pending.take_if(|pending| {
            pending.world.epoch > 0 && self.readiness.suffices(&pending.world.inputs)
        });
        let Some(pending) = pending else { return };
        if let Some(envoy) = &mut self.envoy {
            envoy.gate.start_over();
        }
        let fleets = pending.fleets.into_iter();
        let fleets = fleets
            .map(|(fleet, resources)| (fleet, self.pass_all(resources.into_values().collect())));
        let fleets = fleets.collect();
        self.xds.replace_all(fleets);
        self.note_withheld();
        self.board.update(pending.world, &pending.findings);
        self.holder.start();
        self.readiness.set_ready();
        info!("ready");
        self.save();
    }

    /// What may be sent now.
    fn pass(&mut self, changes: Vec<Change>) -> Vec<Change> {
        match &mut self.envoy {
            Some(envoy) => envoy.gate.pass(changes, port_is_free),
            None => changes,
        }
    }

    /// [`Publisher::pass`] of resources that there are.
    fn pass_all(&mut self, resources: Vec<Resource>) -> Vec<Resource> {
        let changes = self.pass(resources.into_iter().map(Change::Put).collect());
        let there = changes.into_iter().filter_map(|change| match change {
            Change::Put(resource) => Some(resource),
            Change::Remove(_) => None,
        });
        there.collect()
    }

    fn retry(&mut self) {
        let Some(envoy) = &mut self.envoy else { return };
        if envoy.gate.has_left_over() && envoy.asked.is_none() {
            let socket = envoy.admin_socket.clone();
            envoy.asked = Some(tokio::spawn(async move { envoy::bound(&socket).await }));
        }
        let changes = envoy.gate.retry(port_is_free);
        for change in &changes {
            info!(listener = %change.name().name, "the port is free now");
        }
        if !changes.is_empty() {
            self.xds.publish(DEFAULT_FLEET, changes);
            self.note_withheld();
            if self.pending.is_none() {
                self.save();
            }
        }
    }

    fn forget(&mut self, bound: Option<BTreeSet<SocketAddr>>) {
        if let (Some(envoy), Some(bound)) = (&mut self.envoy, bound) {
            envoy.gate.forget(&bound);
        }
    }

    /// Says which listeners wait for their port, on the board and, once each, in the log.
    fn note_withheld(&self) {
        let Some(envoy) = &self.envoy else { return };
        let withheld = envoy.gate.withheld();
        for (name, why) in &withheld {
            if !self.board.is_withheld(name) {
                error!(listener = %name.name, "{why}");
            }
        }
        self.board.withhold(withheld);
    }
}

/// Where Envoy listens, once it has been asked and answers; none if it does not say.
async fn answer(envoy: &mut Option<Beside>) -> Option<BTreeSet<SocketAddr>> {
    let asked = envoy.as_mut().map(|envoy| &mut envoy.asked);
    let Some(asked) = asked else {
        return std::future::pending().await;
    };
    let Some(task) = asked else {
        return std::future::pending().await;
    };
    let answer = task.await;
    *asked = None;
    answer.ok()?.ok()
}

/// Sleeps for ever without a time.
async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
