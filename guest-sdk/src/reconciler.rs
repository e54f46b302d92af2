//! The reconciler's side of the contract.

use crate::Context;
use crate::decode::{self, decode};
use chiton_ir::condition::words;
use chiton_ir::{Condition, ObjectRef, api, documents, gateway, policy, route};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where a module runs, and so which document it returns and which outputs it may read. The host
/// refuses a component that imports an interface that the world of its role has not: `outputs` is
/// for routes and APIs, `attached` for routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Returns `gateway` documents. Lowest layer.
    Gateway,
    /// Returns `policy` documents. Lowest layer.
    Policy,
    /// Returns `route` documents; reads those of Gateways.
    Route,
    /// Returns `api` documents; reads those of routes and Gateways.
    Api,
}

/// A reconciler: a pure function from an object, and what it reads, to an [`Output`].
pub trait Reconciler {
    /// DNS label, for example `gateway`.
    const NAME: &'static str;
    /// The module's own version; usually `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Where it runs.
    const ROLE: Role;
    /// Group and kind of the objects that it reconciles. A policy need not name `Policy`.
    const HANDLES: &'static [(&'static str, &'static str)];
    /// Group and kind of the objects that it asks to read; the core group is `""`.
    const READS: &'static [(&'static str, &'static str)] = &[];

    /// JSON schema of a policy's settings; none for other roles.
    #[must_use]
    fn settings_schema() -> Option<serde_json::Value> {
        None
    }

    /// Reconciles one object.
    fn reconcile(object: &Raw, cx: &mut Context) -> Result<Output, Error>;
}

/// The object that is reconciled, as it came: JSON without `status`, `metadata.managedFields` and
/// `metadata.resourceVersion`.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Its identity.
    pub reference: ObjectRef,
    /// Its JSON.
    pub body: Vec<u8>,
}

impl Raw {
    /// The object, if it is wholly understood: a wrong type, an unknown enum value or an unknown
    /// field gives the condition `Accepted=False` to return. See [`decode()`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Condition> {
        decode(&self.body)
    }

    /// The part of the object that `T` knows; for what must be known of an object that
    /// [`Raw::decode`] refused, for example a route's parents.
    #[must_use]
    pub fn lenient<T: DeserializeOwned>(&self) -> Option<T> {
        decode::lenient(&self.body).ok()
    }
}

/// A document that a reconciler returns: a type of [`chiton_ir`] with its name.
pub trait Document: Serialize + DeserializeOwned {
    /// Name in the outcome.
    const NAME: &'static str;
}

impl Document for gateway::Gateway {
    const NAME: &'static str = documents::GATEWAY;
}
impl Document for route::Route {
    const NAME: &'static str = documents::ROUTE;
}
impl Document for api::Api {
    const NAME: &'static str = documents::API;
}
impl Document for policy::Policy {
    const NAME: &'static str = documents::POLICY;
}

/// What should exist because of the object. It replaces the output before it, whole: without a
/// document the object has no effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Name and JSON of each document.
    pub documents: Vec<(&'static str, Vec<u8>)>,
    /// Conditions, each type at most once in a scope.
    pub conditions: Vec<Condition>,
}

impl Output {
    /// Neither documents nor conditions: the object is not ours.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a document.
    pub fn document<D: Document>(mut self, document: &D) -> Result<Self, Error> {
        let body = serde_json::to_vec(document)
            .map_err(|error| Error::failure(format!("{} document: {error}", D::NAME)))?;
        self.documents.push((D::NAME, body));
        Ok(self)
    }

    /// Adds a condition.
    #[must_use]
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds conditions.
    #[must_use]
    pub fn conditions(mut self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        self.conditions.extend(conditions);
        self
    }

    /// The document of this type, if it was returned.
    #[must_use]
    pub fn find<D: Document>(&self) -> Option<D> {
        let (_, body) = self.documents.iter().find(|(name, _)| *name == D::NAME)?;
        serde_json::from_slice(body).ok()
    }
}

/// Why a reconcile gives no document.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The object is invalid, its author's fault: it gets this condition and has no effect.
    Invalid(Box<Condition>),
    /// Something that is needed is not there yet: the last output stays, and the host tries again,
    /// at once when something that was read changes.
    NotReady(String),
    /// The module's own fault: the last output stays, and it counts against the module.
    Failure(String),
}

impl Error {
    /// `Accepted=False` with the reason `Invalid`: what is wrong, and what to do.
    pub fn invalid(message: impl Into<String>) -> Self {
        Condition::fails(words::ACCEPTED, words::INVALID, message).into()
    }

    /// See [`Error::NotReady`].
    pub fn not_ready(message: impl Into<String>) -> Self {
        Self::NotReady(message.into())
    }

    /// See [`Error::Failure`].
    pub fn failure(message: impl Into<String>) -> Self {
        Self::Failure(message.into())
    }
}

/// The object is invalid, and the condition says why.
impl From<Condition> for Error {
    fn from(condition: Condition) -> Self {
        Self::Invalid(Box::new(condition))
    }
}

/// How a run ended in the contract's words: `done`, `not-ready`, or the module's failure.
pub(crate) enum Ended {
    Done(Output),
    NotReady(String),
    Failed(String),
}

/// Runs a reconciler. An object that is invalid is `done` with the condition that says why.
pub(crate) fn run<R: Reconciler>(object: &Raw, cx: &mut Context) -> Ended {
    match R::reconcile(object, cx) {
        Ok(output) => Ended::Done(output),
        Err(Error::Invalid(condition)) => Ended::Done(Output::none().condition(*condition)),
        Err(Error::NotReady(message)) => Ended::NotReady(message),
        Err(Error::Failure(message)) => Ended::Failed(message),
    }
}
