//! The component: the contract's exports around a [`Reconciler`], and the host's answers behind a
//! [`Context`].

use crate::context::{Host, Level};
use crate::reconciler::{Ended, Raw, Reconciler, Role, run};
use crate::{Condition, ConditionStatus, Context, GroupKind, ObjectRef, Scope};
use bindings::chiton::reconcile::{attached, clock, logging, objects, outputs, types};
use bindings::exports::chiton::reconcile::reconciler as exported;
use chiton_ir::gateway::{LabelOperator, LabelSelector};
use std::marker::PhantomData;

/// Takes the heap that the linker laid out before it asks for more.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// What `wit-bindgen` generates.
///
/// The world is the union of all roles' worlds: an import that a module's code does not reach is
/// not in its component, so that each has only those of its own role.
pub mod bindings {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]
    wit_bindgen::generate!({
        path: "../wit",
        world: "host",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "chiton_guest::component::bindings",
    });
}

/// The exports of a reconciler.
pub struct Exported<R>(PhantomData<R>);

impl<R: Reconciler> exported::Guest for Exported<R> {
    fn describe() -> exported::Description {
        let schema = R::settings_schema().map(|schema| schema.to_string());
        exported::Description {
            name: R::NAME.to_owned(),
            version: R::VERSION.to_owned(),
            role: match R::ROLE {
                Role::Gateway => exported::Role::Gateway,
                Role::Policy => exported::Role::Policy,
                Role::Route => exported::Role::Route,
                Role::Api => exported::Role::Api,
            },
            handles: kinds(R::HANDLES),
            reads: kinds(R::READS),
            settings_schema: schema.unwrap_or_default().into_bytes(),
        }
    }

    fn reconcile(
        reference: types::ObjectRef,
        body: Vec<u8>,
        settings: Vec<u8>,
    ) -> Result<types::Outcome, String> {
        std::panic::set_hook(Box::new(|panic| {
            logging::log(logging::Level::Warn, &panic.to_string());
        }));
        let reference: ObjectRef = reference.into();
        let mut cx = Context::new(Imports, reference.clone(), settings);
        match run::<R>(&Raw { reference, body }, &mut cx) {
            Ended::Done(output) => Ok(types::Outcome::Done(types::Output {
                documents: output
                    .documents
                    .into_iter()
                    .map(|(name, body)| types::Document {
                        name: name.to_owned(),
                        body,
                    })
                    .collect(),
                conditions: output.conditions.into_iter().map(Into::into).collect(),
            })),
            Ended::NotReady(reason) => Ok(types::Outcome::NotReady(reason)),
            Ended::Failed(message) => Err(message),
        }
    }
}

/// The imports.
pub(crate) struct Imports;

impl Host for Imports {
    fn get(&mut self, object: &ObjectRef) -> Option<Vec<u8>> {
        objects::get(&object.into())
    }

    fn list(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Vec<(ObjectRef, Vec<u8>)> {
        let kind = types::GroupKind {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
        };
        objects::list(&kind, namespace, &requirements(selector))
            .into_iter()
            .map(|object| (object.ref_.into(), object.body))
            .collect()
    }

    fn output(&mut self, object: &ObjectRef, name: &str) -> Option<Vec<u8>> {
        outputs::output(&object.into(), name)
    }

    fn policies(&mut self, target: &ObjectRef, section: Option<&str>) -> Vec<Vec<u8>> {
        attached::policies(&target.into(), section)
    }

    fn time_reached(&mut self, seconds: u64) -> bool {
        clock::time_reached(seconds)
    }

    fn log(&mut self, level: Level, message: &str) {
        let level = match level {
            Level::Warn => logging::Level::Warn,
            Level::Info => logging::Level::Info,
            Level::Debug => logging::Level::Debug,
        };
        logging::log(level, message);
    }
}

fn kinds(names: &[(&str, &str)]) -> Vec<types::GroupKind> {
    names
        .iter()
        .map(|(group, kind)| types::GroupKind {
            group: (*group).to_owned(),
            kind: (*kind).to_owned(),
        })
        .collect()
}

fn requirements(selector: &LabelSelector) -> Vec<objects::Requirement> {
    let labels = selector
        .match_labels
        .iter()
        .map(|(key, value)| objects::Requirement {
            key: key.clone(),
            operator: objects::Operator::In,
            values: vec![value.clone()],
        });
    let expressions = selector
        .match_expressions
        .iter()
        .map(|requirement| objects::Requirement {
            key: requirement.key.clone(),
            operator: match requirement.operator {
                LabelOperator::In => objects::Operator::In,
                LabelOperator::NotIn => objects::Operator::NotIn,
                LabelOperator::Exists => objects::Operator::Exists,
                LabelOperator::DoesNotExist => objects::Operator::DoesNotExist,
            },
            values: requirement.values.clone(),
        });
    labels.chain(expressions).collect()
}

impl From<types::ObjectRef> for ObjectRef {
    fn from(object: types::ObjectRef) -> Self {
        Self::new(object.group, object.kind, object.namespace, object.name)
    }
}

impl From<&ObjectRef> for types::ObjectRef {
    fn from(object: &ObjectRef) -> Self {
        Self {
            group: object.group.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}

impl From<Condition> for types::Condition {
    fn from(condition: Condition) -> Self {
        Self {
            scope: match condition.scope {
                Scope::Object => types::Scope::Object,
                Scope::Section(name) => types::Scope::Section(name),
                Scope::Parent(parent) => types::Scope::Parent(types::ParentRef {
                    object: (&parent.object).into(),
                    section: parent.section,
                    port: parent.port,
                }),
            },
            type_: condition.r#type,
            status: match condition.status {
                ConditionStatus::True => types::ConditionStatus::True,
                ConditionStatus::False => types::ConditionStatus::False,
                ConditionStatus::Unknown => types::ConditionStatus::Unknown,
            },
            reason: condition.reason,
            message: condition.message,
        }
    }
}
