//! What a reconciler may ask of the host. Every question is recorded, also one without an answer:
//! when an answer changes, the object is reconciled again.

use crate::decode::lenient;
use crate::reconciler::{Document, Error};
use chiton_ir::condition::words;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{Condition, GroupKind, ObjectRef, policy};
use serde::de::DeserializeOwned;
use std::fmt;

#[cfg(target_family = "wasm")]
use crate::component::Imports as Current;
#[cfg(not(target_family = "wasm"))]
use crate::testing::Session as Current;

/// Who answers: the host of a component, or the world of a test. Chosen at compile time, so that a
/// component imports only what its code can reach.
pub(crate) trait Host {
    fn get(&mut self, object: &ObjectRef) -> Option<Vec<u8>>;
    fn list(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Vec<(ObjectRef, Vec<u8>)>;
    fn output(&mut self, object: &ObjectRef, name: &str) -> Option<Vec<u8>>;
    fn policies(&mut self, target: &ObjectRef, section: Option<&str>) -> Vec<Vec<u8>>;
    fn time_reached(&mut self, seconds: u64) -> bool;
    fn log(&mut self, level: Level, message: &str);
}

/// Level of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Look today.
    Warn,
    /// Life cycle.
    Info,
    /// Everything else.
    Debug,
}

/// An object that was read, other than the one that is reconciled, is not what its kind says.
/// As an [`Error`] it makes the object that refers to it invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which object.
    pub object: ObjectRef,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.object, self.message)
    }
}

impl std::error::Error for Unreadable {}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        Condition::fails(words::ACCEPTED, words::INVALID, error.to_string()).into()
    }
}

/// The tracked reads of one call, its settings and its log.
pub struct Context {
    host: Current,
    object: ObjectRef,
    settings: Vec<u8>,
}

impl Context {
    pub(crate) fn new(host: Current, object: ObjectRef, settings: Vec<u8>) -> Self {
        Self {
            host,
            object,
            settings,
        }
    }

    /// Identity of the object that is reconciled.
    #[must_use]
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// Reads an object, of which `T` may know only a part. None: it does not exist. The kind must
    /// be among the module's reads.
    pub fn get<T: DeserializeOwned>(
        &mut self,
        object: &ObjectRef,
    ) -> Result<Option<T>, Unreadable> {
        let Some(body) = self.host.get(object) else {
            return Ok(None);
        };
        read(object, &body).map(Some)
    }

    /// Reads the objects of a kind, of one namespace or of all, that the selector selects; sorted
    /// by namespace and name.
    pub fn list<T: DeserializeOwned>(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<(ObjectRef, T)>, Unreadable> {
        self.host
            .list(kind, namespace, selector)
            .into_iter()
            .map(|(object, body)| read(&object, &body).map(|value| (object, value)))
            .collect()
    }

    /// Reads what a reconciler of a lower layer returned for an object. Only for routes (of
    /// Gateways) and APIs (of routes and Gateways).
    pub fn output<D: Document>(&mut self, object: &ObjectRef) -> Result<Option<D>, Error> {
        let Some(body) = self.host.output(object, D::NAME) else {
            return Ok(None);
        };
        document(object, &body).map(Some)
    }

    /// Reads the policies that target the object or the named section of it, in order of
    /// precedence. Only for routes; the built-in one leaves effects to the host.
    pub fn policies(
        &mut self,
        target: &ObjectRef,
        section: Option<&str>,
    ) -> Result<Vec<policy::Policy>, Error> {
        let bodies = self.host.policies(target, section);
        bodies.iter().map(|body| document(target, body)).collect()
    }

    /// Whether the time, in seconds since 1970 (UTC), has come. If not, the object is reconciled
    /// again within a second of it.
    pub fn time_reached(&mut self, seconds: u64) -> bool {
        self.host.time_reached(seconds)
    }

    /// Writes to the operator's log; at most 64 messages and 16 KiB a call.
    pub fn log(&mut self, level: Level, message: &str) {
        self.host.log(level, message);
    }

    /// The module's settings from its manifest; `{}` where it gives none.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, Error> {
        lenient(&self.settings)
            .map_err(|error| Error::failure(format!("settings in the module's manifest: {error}")))
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn into_host(self) -> Current {
        self.host
    }
}

fn read<T: DeserializeOwned>(object: &ObjectRef, body: &[u8]) -> Result<T, Unreadable> {
    lenient(body).map_err(|error| Unreadable {
        object: object.clone(),
        message: error,
    })
}

fn document<D: Document>(object: &ObjectRef, body: &[u8]) -> Result<D, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::failure(format!("{} document of {object}: {error}", D::NAME)))
}
