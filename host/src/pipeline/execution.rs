//! The part of an epoch that runs one layer and takes its results.

use super::backlog::Waiting;
use super::check;
use super::dispatch::{self, Owner};
use super::epoch::Engine;
use super::layer::Layer;
use super::output::RunState;
use super::plan::Plan;
use super::reads::View;
use super::retry::{Cause, Verdict};
use super::run::{Done, Ended, Job};
use super::settle::{self, Trouble};
use crate::modules::LiveModule;
use crate::sandbox::Failure;
use crate::store::{Key, Object};
use chiton_ir::Condition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tracing::{debug, warn};

impl Engine {
    /// Runs what is dirty in one layer.
    pub(super) fn run_layer(&mut self, plan: &mut Plan, layer: Layer, first: bool) {
        let mut dirty = plan.start(layer);
        let view = plan.view();
        for done in plan.late.remove(&layer).unwrap_or_default() {
            let key = done.job.key().clone();
            if is_current(plan, &view, &done) {
                dirty.remove(&key);
                self.apply(plan, done);
            } else if plan.inputs.get(&key).is_some() {
                dirty.insert(key, Cause::Change);
            }
        }
        let now = Instant::now();
        for key in dirty.keys() {
            self.backlog.note(key, now);
        }
        let most = if first {
            usize::MAX
        } else {
            self.options.batch
        };
        let (mut jobs, mut tried) = (Vec::new(), Vec::new());
        for (key, cause) in self.backlog.oldest_first(dirty) {
            if self.running.contains(&key) {
                continue;
            }
            if cause == Cause::Change {
                self.schedule.end_retries(&key);
            }
            let Some(object) = plan.inputs.get(&key).cloned() else {
                continue;
            };
            let job = self.prepare(plan, object, layer, &view);
            if job.is_some()
                && let Some(done) = plan.tried.remove(&key)
                && is_current(plan, &view, &done)
            {
                tried.push(done);
                continue;
            }
            match job {
                Some(job) if self.pool.is_full(&job.module.name) => {
                    self.stand_in(plan, &key);
                    let held = self.backlog.held.entry(job.module.name.clone());
                    held.or_default().insert(key, cause);
                }
                Some(_) if jobs.len() >= most => {
                    self.stand_in(plan, &key);
                    plan.carried.insert(key, cause);
                }
                Some(job) => jobs.push((job, cause)),
                None => {}
            }
        }
        tried.extend(self.execute(plan, jobs, first));
        for done in tried {
            self.apply(plan, done);
        }
    }

    /// A job for an object, or at once its result where no module is needed.
    fn prepare(
        &mut self,
        plan: &mut Plan,
        object: Arc<Object>,
        layer: Layer,
        view: &Arc<View>,
    ) -> Option<Job> {
        let key = object.key.clone();
        let result = match dispatch::owner(&object, &plan.modules)? {
            Owner::Module(module) => match check_settings(&object, &module) {
                Ok(()) => {
                    return Some(Job {
                        object,
                        module,
                        layer,
                        view: view.clone(),
                    });
                }
                Err(condition) => settle::invalid(&module, &object, *condition),
            },
            Owner::Invalid(message) => settle::unreadable(&object, &message),
            Owner::Unknown { name } => settle::unknown(&object, &name),
            Owner::Refused {
                name,
                failure_policy,
                reason,
            } => settle::refused(
                &object,
                &name,
                failure_policy,
                &reason,
                self.last_good(&key).as_deref(),
            ),
        };
        self.index.remove(&key);
        self.schedule.forget(&key);
        let result = Arc::new(result);
        if result.state == RunState::Good {
            self.note_good(&key, &result);
        }
        self.set(plan, &key, Some(&result));
        None
    }

    /// Runs jobs in parallel; returns those that ended in time, sorted by object.
    fn execute(&mut self, plan: &mut Plan, jobs: Vec<(Job, Cause)>, first: bool) -> Vec<Done> {
        let mut waiting: Waiting = jobs
            .iter()
            .map(|(job, cause)| (job.key().clone(), *cause))
            .collect();
        let mut started: BTreeSet<Key> = waiting.keys().cloned().collect();
        let mut ended = BTreeMap::new();
        let since = Instant::now();
        let (patience, limit) = if first {
            self.options.first
        } else {
            (self.options.straggler, self.options.layer)
        };
        self.pool.submit(jobs.into_iter().map(|(job, _)| job));
        while !waiting.is_empty() && since.elapsed() < limit {
            let left = limit.saturating_sub(since.elapsed());
            let results = self.pool.next(patience.min(left));
            if results.is_empty() {
                break;
            }
            for done in results {
                let key = done.job.key().clone();
                if waiting.remove(&key).is_some() {
                    ended.insert(key, done);
                } else {
                    self.late.push(done);
                }
            }
        }
        if !waiting.is_empty() {
            for key in waiting.keys() {
                self.stand_in(plan, key);
            }
            for key in self.pool.withdraw() {
                started.remove(&key);
                plan.carried.extend(waiting.remove_entry(&key));
            }
            for key in waiting.keys() {
                debug!(object = %key, "the run outlasts its epoch");
            }
            self.running.extend(waiting.into_keys());
        }
        plan.ran.extend(started);
        ended.into_values().collect()
    }

    /// Gives an object whose run has not ended, and that has no result yet, what it falls back on: its
    /// result from before a restart, or the answer of a closed policy. Nothing, if it has neither.
    fn stand_in(&mut self, plan: &mut Plan, key: &Key) {
        if plan.outputs.get(key).is_some() {
            return;
        }
        let Some(object) = plan.inputs.get(key).cloned() else {
            return;
        };
        let Some(Owner::Module(module)) = dispatch::owner(&object, &plan.modules) else {
            return;
        };
        let last_good = self.last_good(key);
        let message = "its run has not ended yet";
        let result = settle::kept(
            &module,
            &object,
            Trouble::Waiting,
            message,
            last_good.as_deref(),
        );
        if !result.documents.json.is_empty() {
            self.set(plan, key, Some(&Arc::new(result)));
        }
    }

    /// Takes the result of a run.
    fn apply(&mut self, plan: &mut Plan, done: Done) {
        let Job { object, module, .. } = done.job;
        let key = object.key.clone();
        self.metrics
            .ran(&module.name, done.ended.counted(), done.took);
        self.schedule.wake(&key, done.reads.wake);
        self.index.set(&key, done.reads);
        let (trouble, message) = match done.ended {
            Ended::Good(documents, conditions) => {
                self.schedule.end_retries(&key);
                let conditions = self.shared.one(conditions);
                let result = Arc::new(settle::good(&module, &object, documents, conditions));
                self.note_good(&key, &result);
                self.set(plan, &key, Some(&result));
                return;
            }
            Ended::NotReady(reason) => (self.retry(plan, &key, &reason, false), reason),
            Ended::Failed(Failure::Host(reason)) => (self.retry(plan, &key, &reason, true), reason),
            Ended::Failed(failure @ Failure::NotSynced(_)) => {
                self.schedule.end_retries(&key);
                (Trouble::Waiting, failure.to_string())
            }
            Ended::Failed(Failure::Module(reason)) => {
                self.schedule.end_retries(&key);
                plan.failures.add(&module, &key, &reason);
                (Trouble::Failed, reason)
            }
        };
        let last_good = self.last_good(&key);
        let result = settle::kept(&module, &object, trouble, &message, last_good.as_deref());
        self.set(plan, &key, Some(&Arc::new(result)));
    }

    fn retry(&mut self, plan: &Plan, key: &Key, reason: &str, fault_of_host: bool) -> Trouble {
        match self.schedule.retry(key, plan.now, fault_of_host) {
            Verdict::Again => Trouble::Waiting,
            Verdict::Overdue { first } => {
                if first {
                    warn!(object = %key, reason, "an object is not ready after the deadline");
                }
                Trouble::Overdue
            }
        }
    }
}

/// Whether a late result is what a run now would give.
fn is_current(plan: &Plan, view: &View, done: &Done) -> bool {
    let owner = plan
        .inputs
        .get(done.job.key())
        .and_then(|object| dispatch::owner(object, &plan.modules));
    let same_module = matches!(
        owner,
        Some(Owner::Module(module)) if Arc::ptr_eq(&module, &done.job.module)
    );
    same_module
        && done
            .job
            .view
            .is_current(view, &done.job.object, &done.reads)
}

/// Checks the settings of a `Policy` against its module's schema.
fn check_settings(object: &Object, module: &LiveModule) -> Result<(), Box<Condition>> {
    match &module.settings_schema {
        Some(schema) if dispatch::is_policy(&object.key.group, &object.key.kind) => {
            check::settings(object, schema)
        }
        _ => Ok(()),
    }
}
