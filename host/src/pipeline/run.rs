//! One run of one reconciler.

use super::check;
use super::layer::Layer;
use super::metrics::Outcome as Counted;
use super::output::Documents;
use super::reads::{ReadSet, Recorder, View};
use crate::modules::LiveModule;
use crate::sandbox::{Failure, Outcome, SharedReads};
use crate::store::{Key, Object};
use chiton_ir::Condition;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is to be run, with all that it may see. It owns everything, so that it can outlive the
/// epoch that asked for it.
#[derive(Debug)]
pub(super) struct Job {
    pub object: Arc<Object>,
    pub module: Arc<LiveModule>,
    pub layer: Layer,
    pub view: Arc<View>,
}

impl Job {
    pub fn key(&self) -> &Key {
        &self.object.key
    }
}

/// How a run ended, with its documents checked.
#[derive(Debug)]
pub(super) enum Ended {
    Good(Documents, Vec<Condition>),
    NotReady(String),
    Failed(Failure),
}

impl Ended {
    /// How it is counted.
    pub fn counted(&self) -> Counted {
        match self {
            Self::Good(..) => Counted::Done,
            Self::NotReady(_) => Counted::NotReady,
            Self::Failed(failure) => failure.into(),
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub job: Job,
    pub ended: Ended,
    pub reads: ReadSet,
    pub took: Duration,
}

/// Runs a job. Blocks until the module answers or reaches a limit; never panics.
pub(super) fn run(job: Job) -> Done {
    let started = Instant::now();
    let recorder = Arc::new(Mutex::new(Recorder::new(job.view.clone(), job.layer)));
    let shared: SharedReads = recorder.clone();
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        job.module.reconcile(&job.object, shared)
    }));
    let ended = match result {
        Ok(Ok(Outcome::Done {
            documents,
            conditions,
        })) => checked(&job, documents, conditions),
        Ok(Ok(Outcome::NotReady(reason))) => Ended::NotReady(reason),
        Ok(Err(failure)) => Ended::Failed(failure),
        Err(_) => Ended::Failed(Failure::Host("the host's sandbox panicked".into())),
    };
    let reads = recorder
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    Done {
        job,
        ended,
        reads,
        took: started.elapsed(),
    }
}

fn checked(job: &Job, documents: Vec<(String, Vec<u8>)>, conditions: Vec<Condition>) -> Ended {
    let documents = check::conditions(&conditions)
        .and_then(|()| check::typed(job.module.role, job.key(), documents));
    match documents {
        Ok(documents) => Ended::Good(documents, conditions),
        Err(error) => Ended::Failed(Failure::Module(error)),
    }
}
