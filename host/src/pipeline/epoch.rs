//! Epochs: from one state of the inputs to the next world.
//!
//! [`Engine`] is synchronous and has no clock of its own: [`Engine::run`] is given the inputs, the
//! modules and the time, and returns what it did. It works out itself what differs from the epoch
//! before, so a change that was told early, late or twice makes no difference.
//!
//! An object is in one of three states: *at rest*, *running* in this epoch, or a *straggler*, whose
//! run has outlasted the epoch that started it. A straggler counts as unchanged. Its late result is
//! taken by a later epoch if all that it read is still so; else it is run again. An object never
//! runs twice at the same time.

use super::World;
use super::backlog::Backlog;
use super::channel::Event;
use super::dispatch;
use super::index::Index;
use super::layer::Layer;
use super::metrics::Metrics;
use super::output::{Documents, Reconciled, RunState};
use super::plan::Plan;
use super::pool::Pool;
use super::retry::{Cause, RetryPolicy, Schedule};
use super::run::Done;
use super::saved::{Restored, Saved};
use super::shared::Shared;
use super::upward::Upward;
use crate::modules::Modules;
use crate::store::{Changes, Diff, Key, Snapshot, Told};
use arc_swap::ArcSwap;
use chiton_ir::GroupKind;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::identity::names::CHITON_GROUP;
use imbl::OrdMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::debug;

/// How long the first epoch waits for a run. Proxies get nothing before it is committed, so it is
/// better late than partial.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// How long the first epoch waits for the runs of one layer, however many there are: a module that is
/// slow on thousands of objects must not keep everything else from being served.
const FIRST_LAYER: Duration = Duration::from_mins(1);

/// How the engine works.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that run reconcilers.
    pub threads: usize,
    /// How long an epoch waits without any run ending before those that run are stragglers.
    pub straggler: Duration,
    /// How long an epoch waits for the runs of one layer, after which the rest is left to the next
    /// epoch, oldest first. A change waits for the epoch that runs and then for its own: at most
    /// twice three layers of `layer` and `straggler`, longer only by what is older than it and does
    /// not fit into an epoch.
    pub layer: Duration,
    /// How many objects one layer of an epoch runs; not the first epoch.
    pub batch: usize,
    /// The same two for the first epoch.
    pub first: (Duration, Duration),
    /// Retries.
    pub retry: RetryPolicy,
}

impl Default for Options {
    /// One thread more than cores: no module may take all threads, and all cores should be used.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            threads: cores + 1,
            straggler: Duration::from_millis(500),
            layer: Duration::from_secs(1),
            batch: 100_000,
            first: (FIRST_PATIENCE, FIRST_LAYER),
            retry: RetryPolicy::default(),
        }
    }
}

/// What a call of [`Engine::run`] did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Objects that were run, layer by layer, sorted within a layer.
    pub ran: Vec<Key>,
    /// Objects whose run has outlasted the call.
    pub stragglers: BTreeSet<Key>,
    /// The committed epoch; none if nothing changed.
    pub committed: Option<Committed>,
}

/// A committed epoch.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The new world.
    pub world: Arc<World>,
    /// Its events.
    pub events: BTreeMap<Key, Event>,
}

/// Runs epochs.
#[derive(Debug)]
pub struct Engine {
    pub(super) options: Options,
    pub(super) metrics: Metrics,
    pub(super) world: Arc<ArcSwap<World>>,
    pub(super) modules: Arc<Modules>,
    /// The newest good result of each object.
    pub(super) last_good: HashMap<Key, Arc<Reconciled>>,
    /// The same from before a restart.
    pub(super) restored: Restored,
    /// [`World::kept`] of the next world.
    kept: OrdMap<Key, Arc<Reconciled>>,
    pub(super) shared: Shared,
    pub(super) index: Index,
    pub(super) schedule: Schedule,
    pub(super) upward: Upward,
    pub(super) pool: Pool,
    /// Stragglers.
    pub(super) running: BTreeSet<Key>,
    /// Their results that no epoch has taken yet.
    pub(super) late: Vec<Done>,
    /// Objects that wait for a run, and since when.
    pub(super) backlog: Backlog,
}

impl Engine {
    /// An engine that has seen nothing.
    ///
    /// # Errors
    /// The system refuses threads.
    pub fn new(options: Options, metrics: Metrics) -> std::io::Result<Self> {
        Ok(Self {
            pool: Pool::new(options.threads)?,
            schedule: Schedule::new(options.retry),
            options,
            metrics,
            world: Arc::default(),
            modules: Arc::default(),
            last_good: HashMap::new(),
            restored: Restored::default(),
            kept: OrdMap::new(),
            shared: Shared::default(),
            index: Index::default(),
            upward: Upward::default(),
            running: BTreeSet::new(),
            late: Vec::new(),
            backlog: Backlog::default(),
        })
    }

    /// Has objects fall back on these results where their runs are not good, as if they were of
    /// this engine's runs. To be called before the first run.
    pub fn restore(&mut self, results: impl IntoIterator<Item = (Key, Saved)>) {
        self.restored = Restored::new(results);
    }

    /// Where the newest world is published.
    #[must_use]
    pub fn world(&self) -> Arc<ArcSwap<World>> {
        self.world.clone()
    }

    /// When, as a duration since 1970, the engine wants to run without a change.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        if self.backlog.carried.is_empty() && self.late.is_empty() {
            self.schedule.next()
        } else {
            Some(Duration::ZERO)
        }
    }

    /// Whether a run has outlasted its epoch.
    #[must_use]
    pub fn has_stragglers(&self) -> bool {
        !self.running.is_empty()
    }

    /// Told when a run ends. With [`Engine::has_stragglers`] it is a reason to run.
    #[must_use]
    pub fn run_ended(&self) -> Arc<Notify> {
        self.pool.done()
    }

    /// Notes since when changes wait, so that it can be measured and the oldest come first. The
    /// changes themselves are found by comparing snapshots.
    pub fn arrived(&mut self, changes: &Changes) {
        for (told, at) in changes {
            if let Told::Object(key) = told {
                self.backlog.note(key, *at);
            }
        }
    }

    /// Runs one epoch: everything that differs in `inputs` and `modules` from the call before, and
    /// what is due at `now` (since 1970). Blocks until it is committed.
    pub fn run(&mut self, inputs: Arc<Snapshot>, modules: Arc<Modules>, now: Duration) -> Report {
        let before = self.world.load_full();
        let diff = before.inputs.diff(&inputs);
        let mut plan = Plan::new(inputs, modules, before.outputs.clone(), now);
        self.mark_modules(&mut plan);
        self.mark_inputs(&mut plan, &diff);
        // First what has ended: who was held for want of a thread may have one now, and if nobody
        // else runs, nobody will say so again.
        self.sort_late(&mut plan);
        self.mark_due(&mut plan);
        for layer in Layer::ALL {
            self.run_layer(&mut plan, layer, before.epoch == 0);
        }
        self.commit(plan, &before, &diff)
    }

    /// Runs until nothing is left to do now: stragglers are waited for, retries are not. For a
    /// one-off computation. All events of all epochs are in the report, those of one object folded
    /// by the reader.
    pub fn run_to_rest(
        &mut self,
        inputs: &Arc<Snapshot>,
        modules: &Arc<Modules>,
        now: Duration,
    ) -> Vec<Committed> {
        let mut epochs = Vec::new();
        loop {
            let report = self.run(inputs.clone(), modules.clone(), now);
            epochs.extend(report.committed);
            if let Some(done) = self
                .has_stragglers()
                .then(|| self.pool.next(self.options.first.0))
            {
                self.late.extend(done);
            } else if self.backlog.carried.is_empty() {
                return epochs;
            }
        }
    }

    /// Marks the objects of modules that came, went or changed.
    fn mark_modules(&mut self, plan: &mut Plan) {
        let changes = plan.modules.changes_since(&self.modules);
        self.modules = plan.modules.clone();
        if changes.is_empty() {
            return;
        }
        for module in plan.modules.live() {
            plan.tried.extend(module.trial.take(module));
        }
        let inputs = plan.inputs.clone();
        let all = LabelSelector::default();
        for kind in &changes.kinds {
            for object in inputs.list(kind, None, &all) {
                if dispatch::layer(&object.key, &plan.modules).is_none() {
                    self.forget(plan, &object.key);
                }
                plan.mark(&object.key, Cause::Change);
            }
        }
        if changes.policies.is_empty() {
            return;
        }
        for object in inputs.list(&GroupKind::new(CHITON_GROUP, "Policy"), None, &all) {
            if dispatch::policy_type(object).is_some_and(|name| changes.policies.contains(&name)) {
                plan.mark(&object.key, Cause::Change);
            }
        }
    }

    /// Marks changed objects and who read them.
    fn mark_inputs(&mut self, plan: &mut Plan, diff: &Diff) {
        for change in &diff.objects {
            if change.after.is_none() {
                self.forget(plan, &change.key);
            }
            plan.mark(&change.key, Cause::Change);
            let found = self.index.readers_of_object(change);
            self.metrics.checked(&change.key, found.residual);
            for reader in &found.readers {
                plan.mark(reader, Cause::Change);
            }
        }
        for kind in &diff.synced {
            for reader in self.index.waiting_for(kind) {
                plan.mark(reader, Cause::Change);
            }
        }
    }

    /// Marks what is due, and what the last epoch left.
    fn mark_due(&mut self, plan: &mut Plan) {
        for (key, cause) in self.schedule.take_due(plan.now) {
            plan.mark(&key, cause);
        }
        let released = self.backlog.release(|module| !self.pool.is_full(module));
        let carried = std::mem::take(&mut self.backlog.carried);
        for (key, cause) in carried.into_iter().chain(released) {
            plan.mark(&key, cause);
        }
    }

    /// Gives the results of stragglers to their layers.
    fn sort_late(&mut self, plan: &mut Plan) {
        self.late.extend(self.pool.next(Duration::ZERO));
        for done in self.late.drain(..) {
            self.running.remove(done.job.key());
            // Without a layer nobody needs the result any more.
            if let Some(layer) = dispatch::layer(done.job.key(), &plan.modules) {
                plan.late.entry(layer).or_default().push(done);
            }
        }
    }

    /// Replaces a result; where its documents differ, who read them runs.
    pub(super) fn set(&mut self, plan: &mut Plan, key: &Key, after: Option<&Arc<Reconciled>>) {
        let before = plan.outputs.get(key).cloned();
        if before.as_ref() == after {
            return;
        }
        match after {
            Some(result) if result.state != RunState::Good => {
                if let Some(good) = self.last_good.get(key) {
                    self.kept.insert(key.clone(), good.clone());
                }
            }
            _ => drop(self.kept.remove(key)),
        }
        plan.replace(key, before.clone(), after.cloned());
        let none = Documents::default();
        let before = before.as_ref().map_or(&none, |result| &result.documents);
        let after = after.map_or(&none, |result| &result.documents);
        if before.json == after.json {
            return;
        }
        for reader in self.index.readers_of_output(key) {
            plan.mark(reader, Cause::Change);
        }
        for policy in before.policy.iter().chain(&after.policy) {
            for reader in self.index.readers_of_policy(policy) {
                plan.mark(&reader, Cause::Change);
            }
        }
    }

    /// Removes all that is kept for an object that is gone or has no owner.
    fn forget(&mut self, plan: &mut Plan, key: &Key) {
        self.index.remove(key);
        self.schedule.forget(key);
        self.last_good.remove(key);
        self.restored.forget(key);
        self.set(plan, key, None);
    }

    /// The newest good result of an object, also from before a restart.
    pub(super) fn last_good(&mut self, key: &Key) -> Option<Arc<Reconciled>> {
        if let Some(result) = self.restored.take(key) {
            self.last_good.insert(key.clone(), Arc::new(result));
        }
        self.last_good.get(key).cloned()
    }

    /// Notes a good result.
    pub(super) fn note_good(&mut self, key: &Key, result: &Arc<Reconciled>) {
        self.restored.forget(key);
        self.last_good.insert(key.clone(), result.clone());
    }

    /// Measures how long those have waited that do not any more.
    fn settle(&mut self) {
        let now = Instant::now();
        let (running, metrics) = (&self.running, &self.metrics);
        self.backlog.settle(
            |key| running.contains(key),
            |since| metrics.waited(now.saturating_duration_since(since)),
        );
    }

    fn commit(&mut self, plan: Plan, before: &World, diff: &Diff) -> Report {
        plan.failures.tell();
        self.backlog.carried.extend(plan.carried);
        let report = Report {
            ran: plan.ran,
            stragglers: self.running.clone(),
            committed: None,
        };
        if before.epoch > 0 && diff.is_empty() && plan.changed.is_empty() {
            self.settle();
            return report;
        }
        if before.epoch == 0 || !diff.synced.is_empty() {
            self.restored.retain(&plan.inputs);
        }
        let events = self
            .upward
            .events(diff, &plan.changed, &plan.inputs, &plan.outputs);
        let world = Arc::new(World {
            epoch: before.epoch + 1,
            inputs: plan.inputs,
            outputs: plan.outputs,
            kept: self.kept.clone(),
        });
        self.world.store(world.clone());
        self.metrics.committed(&world.inputs);
        self.settle();
        debug!(
            epoch = world.epoch,
            ran = report.ran.len(),
            events = events.len(),
            "an epoch is committed"
        );
        Report {
            committed: Some(Committed { world, events }),
            ..report
        }
    }
}
