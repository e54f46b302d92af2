//! One call of a module: what the guest asks of the host, and what it has used so far.
//!
//! A request that is refused ends the call. The reason is kept here, because what comes out of the
//! engine then is only "the host trapped".

use super::bindings::{self, attached, clock, logging, objects, outputs, types};
use super::{Failure, LOG_MESSAGES, Limits, Role, SharedReads};
use crate::store::{Key, Object};
use chiton_ir::{GroupKind, documents};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use wasmtime::ResourceLimiter;

/// Elements of a guest's tables, all together. A table holds the functions that are called through
/// pointers; the toolchains' guests have a few hundred.
const MAX_TABLE_ELEMENTS: usize = 20_000;

/// Instances, tables and memories in a call: see `CORE_INSTANCES` in the engine.
const MAX_INSTANCES: usize = 64;

/// Where a call runs.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The module.
    pub module: Arc<str>,
    /// Its role; none while it is asked what it is.
    pub role: Option<Role>,
    /// Kinds that it may read.
    pub granted: Arc<BTreeSet<GroupKind>>,
    /// Its limits.
    pub limits: Limits,
}

/// The state of a call.
pub(super) struct Call {
    identity: Identity,
    /// The object; none for `describe`.
    object: Option<Key>,
    reads: Option<SharedReads>,
    read_bytes: usize,
    log_bytes: usize,
    log_messages: usize,
    log_dropped: usize,
    memory: usize,
    table_elements: usize,
    /// Why the host ended the call.
    aborted: Option<Failure>,
}

impl Call {
    pub(super) fn new(identity: Identity, object: Option<Key>, reads: Option<SharedReads>) -> Self {
        Self {
            identity,
            object,
            reads,
            read_bytes: 0,
            log_bytes: 0,
            log_messages: 0,
            log_dropped: 0,
            memory: 0,
            table_elements: 0,
            aborted: None,
        }
    }

    /// Why the host ended the call, if it did. Says what was left out of the log.
    pub(super) fn finish(self) -> Option<Failure> {
        if self.log_dropped > 0 {
            tracing::warn!(
                module = %self.identity.module,
                object = %Named(self.object.as_ref()),
                dropped = self.log_dropped,
                "the module logged more than a call may; the rest was dropped"
            );
        }
        self.aborted
    }

    fn abort(&mut self, failure: Failure) -> wasmtime::Error {
        let error = wasmtime::Error::msg(failure.to_string());
        self.aborted = Some(failure);
        error
    }

    fn refuse(&mut self, sentence: String) -> wasmtime::Error {
        self.abort(Failure::Module(sentence))
    }

    fn check_granted(&mut self, kind: &GroupKind) -> wasmtime::Result<()> {
        if self.identity.granted.contains(kind) {
            return Ok(());
        }
        Err(self.refuse(format!(
            "it read {kind}, which it was not granted: name the kind in `reads` of the module and of its manifest"
        )))
    }

    /// Whether outputs named `name` are of a lower layer than this module's.
    fn check_layer(&mut self, name: &str) -> wasmtime::Result<()> {
        let readable: &[&str] = match self.identity.role {
            Some(Role::Route) => &[documents::GATEWAY, documents::POLICY],
            Some(Role::Api) => &[documents::GATEWAY, documents::POLICY, documents::ROUTE],
            Some(Role::Gateway | Role::Policy) | None => &[],
        };
        if readable.contains(&name) {
            return Ok(());
        }
        Err(self.refuse(format!(
            "it asked for the output `{name}`, which is none of a lower layer"
        )))
    }

    /// Counts what is about to be given to the guest.
    fn count_read(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        let limit = self.identity.limits.reads;
        if self.read_bytes <= limit {
            return Ok(());
        }
        Err(self.refuse(format!(
            "it read more than its limit of {limit} bytes a call"
        )))
    }

    /// Asks the pipeline, whose failures end the call as they are.
    fn read<T>(
        &mut self,
        ask: impl FnOnce(&mut dyn super::Reads) -> Result<T, Failure>,
    ) -> wasmtime::Result<T> {
        let answer = match &self.reads {
            Some(reads) => {
                let mut reads: MutexGuard<'_, _> =
                    reads.lock().unwrap_or_else(PoisonError::into_inner);
                ask(&mut *reads)
            }
            None => Err(Failure::Module(
                "it read while it was asked to describe itself".into(),
            )),
        };
        answer.map_err(|failure| self.abort(failure))
    }
}

impl types::Host for Call {}

impl objects::Host for Call {
    fn get(&mut self, object: types::ObjectRef) -> wasmtime::Result<Option<Vec<u8>>> {
        let object = object.into();
        let object: chiton_ir::ObjectRef = object;
        self.check_granted(&object.group_kind())?;
        let Some(found) = self.read(|reads| reads.get(&object))? else {
            return Ok(None);
        };
        let body = readable(&found);
        self.count_read(body.len())?;
        Ok(Some(body))
    }

    fn list(
        &mut self,
        kind: types::GroupKind,
        namespace: Option<String>,
        selector: Vec<objects::Requirement>,
    ) -> wasmtime::Result<Vec<objects::Object>> {
        let kind = kind.into();
        self.check_granted(&kind)?;
        let selector = bindings::selector(selector);
        let found = self.read(|reads| reads.list(&kind, namespace.as_deref(), &selector))?;
        let mut given = Vec::with_capacity(found.len());
        for object in found {
            let body = readable(&object);
            self.count_read(body.len() + object.key.namespace.len() + object.key.name.len())?;
            given.push(objects::Object {
                ref_: (&object.key).into(),
                body,
            });
        }
        Ok(given)
    }
}

impl outputs::Host for Call {
    fn output(
        &mut self,
        object: types::ObjectRef,
        name: String,
    ) -> wasmtime::Result<Option<Vec<u8>>> {
        self.check_layer(&name)?;
        let object = object.into();
        let Some(found) = self.read(|reads| reads.output(&object, &name))? else {
            return Ok(None);
        };
        self.count_read(found.len())?;
        Ok(Some(found.to_vec()))
    }
}

impl attached::Host for Call {
    fn policies(
        &mut self,
        target: types::ObjectRef,
        section: Option<String>,
    ) -> wasmtime::Result<Vec<Vec<u8>>> {
        let target = target.into();
        let found = self.read(|reads| reads.policies(&target, section.as_deref()))?;
        for policy in &found {
            self.count_read(policy.len())?;
        }
        Ok(found.iter().map(|policy| policy.to_vec()).collect())
    }
}

impl clock::Host for Call {
    fn time_reached(&mut self, seconds: u64) -> wasmtime::Result<bool> {
        self.read(|reads| Ok(reads.time_reached(seconds)))
    }
}

impl logging::Host for Call {
    fn log(&mut self, level: logging::Level, message: String) -> wasmtime::Result<()> {
        let room = self.identity.limits.log.saturating_sub(self.log_bytes);
        if self.log_messages >= LOG_MESSAGES || message.len() > room {
            self.log_dropped += 1;
            return Ok(());
        }
        self.log_messages += 1;
        self.log_bytes += message.len();
        let module = &*self.identity.module;
        let object = Named(self.object.as_ref());
        // One line a message, whatever the guest puts in it.
        let message = message.replace(char::is_control, " ");
        match level {
            logging::Level::Warn => tracing::warn!(module, %object, "{message}"),
            logging::Level::Info => tracing::info!(module, %object, "{message}"),
            logging::Level::Debug => tracing::debug!(module, %object, "{message}"),
        }
        Ok(())
    }
}

impl ResourceLimiter for Call {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        let limit = self.identity.limits.memory;
        if total > limit {
            return Err(self.refuse(format!(
                "it asked for more memory than its limit of {limit} bytes"
            )));
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self
            .table_elements
            .saturating_add(desired.saturating_sub(current));
        if total > MAX_TABLE_ELEMENTS {
            return Err(self.refuse(format!(
                "its tables have more than {MAX_TABLE_ELEMENTS} elements"
            )));
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_INSTANCES
    }

    fn memories(&self) -> usize {
        MAX_INSTANCES
    }
}

/// The body of an object as a guest gets it. One that cannot be read has none, and must not make
/// those fail that only ask whether it is there: it is given with its identity alone.
fn readable(object: &Object) -> Vec<u8> {
    if object.problem.is_none() {
        return object.body.to_vec();
    }
    let metadata = if object.key.namespace.is_empty() {
        json!({"name": object.key.name})
    } else {
        json!({"name": object.key.name, "namespace": object.key.namespace})
    };
    let kind = &object.key.kind;
    json!({"apiVersion": object.api_version, "kind": kind, "metadata": metadata})
        .to_string()
        .into_bytes()
}

/// The object of a call, for log lines.
struct Named<'a>(Option<&'a Key>);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(key) => key.fmt(f),
            None => f.write_str("describe"),
        }
    }
}
