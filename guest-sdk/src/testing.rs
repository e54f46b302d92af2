//! Runs a reconciler natively, without a host, against a world held in memory.
//!
//! ```
//! # use chiton_guest::ir::policy::Effect;
//! # use chiton_guest::{Context, Error, Policy, testing::World};
//! # struct Nothing;
//! # impl Policy for Nothing {
//! #     type Settings = std::collections::BTreeMap<String, String>;
//! #     const NAME: &'static str = "nothing";
//! #     const VERSION: &'static str = "1";
//! #     fn effects(_: Self::Settings, _: &mut Context) -> Result<Vec<Effect>, Error> { Ok(vec![]) }
//! # }
//! let run = World::new().reconcile::<Nothing>(
//!     "
//!     apiVersion: chiton.dev/v1alpha1
//!     kind: Policy
//!     metadata: {name: p, namespace: default}
//!     spec:
//!       type: nothing
//!       targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]
//!       default: {}
//!     ",
//! );
//! assert_eq!(run.reason("Accepted"), "Accepted");
//! ```
//!
//! What is built wrongly (YAML that does not parse, an object without a name) panics with the
//! reason: it is the test's mistake.
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

use crate::context::{Context, Host, Level};
use crate::policy::Policy;
use crate::reconciler::{Document, Ended, Output, Raw, Reconciler, run};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::policy as documents;
use chiton_ir::{Condition, ConditionStatus, GroupKind, ObjectRef, Scope};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a reconciler can read.
#[derive(Clone, Debug, Default)]
pub struct World {
    objects: BTreeMap<ObjectRef, Value>,
    outputs: BTreeMap<(ObjectRef, &'static str), Vec<u8>>,
    policies: Vec<documents::Policy>,
    settings: Option<Value>,
    time: u64,
}

/// A read that a reconciler made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// An object.
    Get(ObjectRef),
    /// A list.
    List(GroupKind, Option<String>, LabelSelector),
    /// A document of a lower layer.
    Output(ObjectRef, String),
    /// The policies at a target.
    Policies(ObjectRef, Option<String>),
    /// Whether a time had come.
    Time(u64),
}

/// How a run ended, and what it did on the way.
#[derive(Clone, Debug)]
pub struct Run {
    /// `done`; empty where the run ended otherwise.
    pub output: Output,
    /// The reason of `not-ready`.
    pub not_ready: Option<String>,
    /// The module's failure.
    pub failure: Option<String>,
    /// Reads in order.
    pub reads: Vec<Read>,
    /// Log messages in order.
    pub log: Vec<(Level, String)>,
}

impl World {
    /// An empty world, at the time 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the objects of a YAML or JSON text, one or more documents.
    #[must_use]
    pub fn yaml(mut self, text: &str) -> Self {
        for value in parse(text) {
            self = self.object(value);
        }
        self
    }

    /// Adds an object.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.objects.insert(identity(&object), object);
        self
    }

    /// Adds a document that a reconciler of a lower layer returned for an object.
    #[must_use]
    pub fn output<D: Document>(mut self, object: &ObjectRef, document: &D) -> Self {
        let body = serde_json::to_vec(document).expect("a document is JSON");
        self.outputs.insert((object.clone(), D::NAME), body);
        self
    }

    /// Adds a policy that reconcilers of routes see at its targets; those added first come first.
    #[must_use]
    pub fn policy(mut self, policy: documents::Policy) -> Self {
        self.policies.push(policy);
        self
    }

    /// The settings of the module's manifest.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = Some(settings);
        self
    }

    /// The time, in seconds since 1970.
    #[must_use]
    pub fn time(mut self, seconds: u64) -> Self {
        self.time = seconds;
        self
    }

    /// Reconciles the one object of a YAML or JSON text.
    #[must_use]
    pub fn reconcile<R: Reconciler>(&self, text: &str) -> Run {
        let mut objects = parse(text);
        assert_eq!(objects.len(), 1, "one object is reconciled at a time");
        self.reconcile_object::<R>(&objects.remove(0))
    }

    /// Reconciles an object.
    #[must_use]
    pub fn reconcile_object<R: Reconciler>(&self, object: &Value) -> Run {
        let reference = identity(object);
        let body = serde_json::to_vec(object).expect("a value is JSON");
        let settings = self
            .settings
            .clone()
            .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let session = Session {
            world: self.clone(),
            reads: Vec::new(),
            log: Vec::new(),
        };
        let mut cx = Context::new(
            session,
            reference.clone(),
            settings.to_string().into_bytes(),
        );
        let ended = run::<R>(&Raw { reference, body }, &mut cx);
        let session = cx.into_host();
        let mut run = Run {
            output: Output::none(),
            not_ready: None,
            failure: None,
            reads: session.reads,
            log: session.log,
        };
        match ended {
            Ended::Done(output) => run.output = output,
            Ended::NotReady(reason) => run.not_ready = Some(reason),
            Ended::Failed(message) => run.failure = Some(message),
        }
        run
    }

    /// Reconciles a `Policy` in the namespace `default` that targets the Gateway `g` and has these
    /// settings, as YAML, under `default`.
    #[must_use]
    pub fn policy_with<P: Policy>(&self, settings: &str) -> Run {
        let settings = parse(settings).into_iter().next().unwrap_or(Value::Null);
        self.reconcile_object::<P>(&serde_json::json!({
            "apiVersion": "chiton.dev/v1alpha1",
            "kind": "Policy",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "type": P::NAME,
                "targetRefs": [
                    {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"},
                ],
                "default": settings,
            },
        }))
    }
}

impl Run {
    /// The condition of the object itself of this type.
    #[must_use]
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.condition_at(&Scope::Object, r#type)
    }

    /// The condition of this scope and type.
    #[must_use]
    pub fn condition_at(&self, scope: &Scope, r#type: &str) -> Option<&Condition> {
        self.output
            .conditions
            .iter()
            .find(|condition| condition.scope == *scope && condition.r#type == r#type)
    }

    /// The reason of the object's condition of this type; empty if there is none.
    #[must_use]
    pub fn reason(&self, r#type: &str) -> &str {
        self.condition(r#type)
            .map_or("", |condition| &condition.reason)
    }

    /// The document of this type, if the run returned it.
    #[must_use]
    pub fn document<D: Document>(&self) -> Option<D> {
        self.output.find()
    }

    /// The effects under `default` of an accepted policy.
    #[must_use]
    pub fn effects(&self) -> Vec<documents::Effect> {
        let policy: documents::Policy = self
            .document()
            .unwrap_or_else(|| panic!("the policy was not accepted: {self:?}"));
        policy.default
    }

    /// Why the object was not accepted.
    #[must_use]
    pub fn refusal(&self) -> &str {
        match self.condition("Accepted") {
            Some(condition) if condition.status == ConditionStatus::False => {
                assert!(self.output.documents.is_empty(), "refused, yet a document");
                &condition.message
            }
            _ => panic!("the object was not refused: {self:?}"),
        }
    }
}

/// The world during one run.
pub(crate) struct Session {
    world: World,
    reads: Vec<Read>,
    log: Vec<(Level, String)>,
}

impl Host for Session {
    fn get(&mut self, object: &ObjectRef) -> Option<Vec<u8>> {
        self.reads.push(Read::Get(object.clone()));
        self.world
            .objects
            .get(object)
            .map(|value| value.to_string().into_bytes())
    }

    fn list(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Vec<(ObjectRef, Vec<u8>)> {
        self.reads.push(Read::List(
            kind.clone(),
            namespace.map(ToOwned::to_owned),
            selector.clone(),
        ));
        self.world
            .objects
            .iter()
            .filter(|(object, _)| object.is(&kind.group, &kind.kind))
            .filter(|(object, _)| namespace.is_none_or(|namespace| object.namespace == namespace))
            .filter(|(_, value)| selector.matches(&labels(value)))
            .map(|(object, value)| (object.clone(), value.to_string().into_bytes()))
            .collect()
    }

    fn output(&mut self, object: &ObjectRef, name: &str) -> Option<Vec<u8>> {
        self.reads
            .push(Read::Output(object.clone(), name.to_owned()));
        self.world
            .outputs
            .iter()
            .find(|((owner, document), _)| owner == object && *document == name)
            .map(|(_, body)| body.clone())
    }

    fn policies(&mut self, target: &ObjectRef, section: Option<&str>) -> Vec<Vec<u8>> {
        self.reads.push(Read::Policies(
            target.clone(),
            section.map(ToOwned::to_owned),
        ));
        let here = |candidate: &documents::Target| {
            candidate.object == *target && candidate.section.as_deref() == section
        };
        self.world
            .policies
            .iter()
            .filter(|policy| policy.targets.iter().any(here))
            .map(|policy| serde_json::to_vec(policy).expect("a document is JSON"))
            .collect()
    }

    fn time_reached(&mut self, seconds: u64) -> bool {
        self.reads.push(Read::Time(seconds));
        self.world.time >= seconds
    }

    fn log(&mut self, level: Level, message: &str) {
        self.log.push((level, message.to_owned()));
    }
}

fn parse(text: &str) -> Vec<Value> {
    // As the host reads files: `n` and `yes` are text.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_multiple_with_options(text, options)
        .unwrap_or_else(|error| panic!("{error}\nin:\n{text}"))
}

fn identity(object: &Value) -> ObjectRef {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let group = text("/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    assert!(
        !kind.is_empty() && !name.is_empty(),
        "an object needs kind and metadata.name: {object}"
    );
    ObjectRef::new(group, kind, text("/metadata/namespace"), name)
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    object
        .pointer("/metadata/labels")
        .and_then(|labels| serde_json::from_value(labels.clone()).ok())
        .unwrap_or_default()
}
