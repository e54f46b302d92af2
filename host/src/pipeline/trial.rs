//! The trial of a module before it owns anything.
//!
//! A candidate is run on all objects that it would own, in the newest committed world, beside the
//! module that owns them. It changes nothing; but if the candidate is put in charge, the epoch that
//! does so takes the good runs whose reads are still so, as it takes late results, instead of
//! running each object once more.

use super::layer::Layer;
use super::output::{Documents, Reconciled, RunState};
use super::reads::{ReadSet, View};
use super::run::{Done, Ended, Job, run};
use super::settle::{self, Trouble};
use super::{World, check, dispatch};
use crate::modules::LiveModule;
use crate::sandbox::{Failure, Role};
use crate::store::{Key, Object};
use chiton_ir::condition::words;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::identity::names::CHITON_GROUP;
use chiton_ir::{Condition, ConditionStatus, GroupKind, Scope};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tries of one object: a fault that may be the host's, for example a missed time limit, is not
/// held against a module at once.
const TRIES: usize = 2;

/// One object with its result now and under the candidate.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The object.
    pub key: Key,
    /// Its committed result; none if it has none.
    pub before: Option<Arc<Reconciled>>,
    /// Its result under the candidate.
    pub after: Arc<Reconciled>,
}

impl Tried {
    /// Why the candidate is worse for this object than what is there, if it is: it fails where
    /// nothing has failed, or does not accept what is accepted.
    #[must_use]
    pub fn worse(&self) -> Option<String> {
        let before = self.before.as_deref();
        let was_good = before.is_some_and(|before| before.state == RunState::Good);
        match &self.after.state {
            RunState::Failed(reason)
                if before.is_none_or(|b| !matches!(b.state, RunState::Failed(_))) =>
            {
                Some(format!("{}: it fails: {reason}", self.key))
            }
            RunState::NotReady(reason) if was_good => {
                Some(format!("{}: it is not ready: {reason}", self.key))
            }
            _ => self.refusal(before?),
        }
    }

    /// What it does not accept that was accepted.
    fn refusal(&self, before: &Reconciled) -> Option<String> {
        let accepted: BTreeSet<&Scope> = before
            .conditions
            .iter()
            .filter(|c| c.r#type == words::ACCEPTED && c.status == ConditionStatus::True)
            .map(|c| &c.scope)
            .collect();
        let refused = self.after.conditions.iter().find(|c| {
            c.r#type == words::ACCEPTED
                && c.status == ConditionStatus::False
                && (accepted.contains(&c.scope) || c.scope == Scope::Object && !accepted.is_empty())
        })?;
        Some(format!(
            "{}: it does not accept what was accepted: {}: {}",
            self.key, refused.reason, refused.message
        ))
    }
}

/// Good runs of a candidate, which stay with it until an epoch takes them.
#[derive(Debug, Default)]
pub struct GoodRuns(Mutex<Option<(Arc<View>, Vec<GoodRun>)>>);

#[derive(Debug)]
struct GoodRun {
    object: Arc<Object>,
    documents: Documents,
    conditions: Vec<Condition>,
    reads: ReadSet,
    took: Duration,
}

impl GoodRuns {
    /// Takes them out, as runs of `module`, whose they are.
    pub(super) fn take(&self, module: &Arc<LiveModule>) -> Vec<(Key, Done)> {
        let (view, runs) = self.lock().take().unzip();
        let Some(view) = view else {
            return Vec::new();
        };
        let done = |run: GoodRun| {
            let done = Done {
                ended: Ended::Good(run.documents, run.conditions),
                reads: run.reads,
                took: run.took,
                job: Job {
                    layer: Layer::from(module.role),
                    module: module.clone(),
                    view: view.clone(),
                    object: run.object,
                },
            };
            (done.job.key().clone(), done)
        };
        runs.into_iter().flatten().map(done).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Arc<View>, Vec<GoodRun>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a candidate on all objects that it would own, on `threads` threads. Blocks until all have
/// ended; each call has the module's own time limit.
#[must_use]
pub fn trial(
    world: &World,
    candidate: &Arc<LiveModule>,
    now: Duration,
    threads: usize,
) -> Vec<Tried> {
    let view = Arc::new(View {
        inputs: world.inputs.clone(),
        outputs: world.outputs.clone(),
        now,
    });
    let objects = owned(world, candidate);
    let next = AtomicUsize::new(0);
    let all = Mutex::new((Vec::with_capacity(objects.len()), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, objects.len().max(1)) {
            scope.spawn(|| {
                while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (after, run) = try_one(object, candidate, &view);
                    let one = Tried {
                        key: object.key.clone(),
                        before: world.outputs.get(&object.key).cloned(),
                        after: Arc::new(after),
                    };
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.0.push(one);
                    all.1.extend(run);
                }
            });
        }
    });
    let (mut tried, runs) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    tried.sort_by(|a, b| a.key.cmp(&b.key));
    *candidate.trial.lock() = Some((view, runs));
    tried
}

/// Objects that the candidate would own and that can be given to a module.
fn owned(world: &World, candidate: &LiveModule) -> Vec<Arc<Object>> {
    let all = LabelSelector::default();
    let policy = GroupKind::new(CHITON_GROUP, "Policy");
    let kinds: BTreeSet<&GroupKind> = candidate
        .handles
        .iter()
        .filter(|kind| **kind != policy)
        .collect();
    let handled = kinds
        .into_iter()
        .flat_map(|kind| world.inputs.list(kind, None, &all));
    let policies = world
        .inputs
        .list(&policy, None, &all)
        .filter(|_| candidate.role == Role::Policy)
        .filter(|object| dispatch::policy_type(object).as_ref() == Some(&candidate.name));
    handled
        .chain(policies)
        .filter(|object| object.problem.is_none())
        .cloned()
        .collect()
}

fn try_one(
    object: &Arc<Object>,
    candidate: &Arc<LiveModule>,
    view: &Arc<View>,
) -> (Reconciled, Option<GoodRun>) {
    if let Some(schema) = &candidate.settings_schema
        && dispatch::is_policy(&object.key.group, &object.key.kind)
        && let Err(condition) = check::settings(object, schema)
    {
        return (settle::invalid(candidate, object, *condition), None);
    }
    let mut fault = String::new();
    for _ in 0..TRIES {
        let done = run(Job {
            object: object.clone(),
            module: candidate.clone(),
            layer: Layer::from(candidate.role),
            view: view.clone(),
        });
        let (trouble, message) = match done.ended {
            Ended::Good(documents, conditions) => {
                let run = GoodRun {
                    object: object.clone(),
                    documents: documents.clone(),
                    conditions: conditions.clone(),
                    reads: done.reads,
                    took: done.took,
                };
                let result = settle::good(candidate, object, documents, conditions.into());
                return (result, Some(run));
            }
            Ended::NotReady(reason) => (Trouble::Waiting, reason),
            Ended::Failed(failure @ Failure::NotSynced(_)) => {
                (Trouble::Waiting, failure.to_string())
            }
            Ended::Failed(Failure::Module(reason)) => (Trouble::Failed, reason),
            Ended::Failed(Failure::Host(reason)) => {
                fault = reason;
                continue;
            }
        };
        let result = settle::kept(candidate, object, trouble, &message, None);
        return (result, None);
    }
    let result = settle::kept(candidate, object, Trouble::Failed, &fault, None);
    (result, None)
}
