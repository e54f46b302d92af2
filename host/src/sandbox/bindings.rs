//! The contract's types as Rust, and the way between them and the host's own.

use super::{Description, Outcome, Role};
use crate::store::Key;
use chiton_ir::gateway::{LabelOperator, LabelRequirement, LabelSelector};
use chiton_ir::{Condition, ConditionStatus, GroupKind, ObjectRef, ParentRef, Scope};

#[allow(missing_docs, clippy::pedantic)]
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "host",
        imports: { default: trappable },
    });
}

pub(super) use generated::chiton::reconcile::{attached, clock, logging, objects, outputs, types};
pub(super) use generated::exports::chiton::reconcile::reconciler;
pub(super) use generated::{Host_ as Guest, Host_Pre as GuestPre};

use super::call::Call;
use wasmtime::component::{HasSelf, Linker};

/// Links all that any role may import; which role may import what is checked when it is loaded.
pub(super) fn add_to_linker(linker: &mut Linker<Call>) -> wasmtime::Result<()> {
    Guest::add_to_linker::<Call, HasSelf<Call>>(linker, |call| call)
}

impl From<types::ObjectRef> for ObjectRef {
    fn from(object: types::ObjectRef) -> Self {
        Self {
            group: object.group,
            kind: object.kind,
            namespace: object.namespace,
            name: object.name,
        }
    }
}

impl From<&Key> for types::ObjectRef {
    fn from(object: &Key) -> Self {
        Self {
            group: object.group.to_string(),
            kind: object.kind.to_string(),
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
        }
    }
}

impl From<types::GroupKind> for GroupKind {
    fn from(kind: types::GroupKind) -> Self {
        Self::new(kind.group, kind.kind)
    }
}

/// A selector in the words of Kubernetes.
pub(super) fn selector(requirements: Vec<objects::Requirement>) -> LabelSelector {
    LabelSelector {
        match_labels: std::collections::BTreeMap::new(),
        match_expressions: requirements.into_iter().map(requirement).collect(),
    }
}

fn requirement(requirement: objects::Requirement) -> LabelRequirement {
    LabelRequirement {
        key: requirement.key,
        operator: match requirement.operator {
            objects::Operator::In => LabelOperator::In,
            objects::Operator::NotIn => LabelOperator::NotIn,
            objects::Operator::Exists => LabelOperator::Exists,
            objects::Operator::DoesNotExist => LabelOperator::DoesNotExist,
        },
        values: requirement.values,
    }
}

impl From<types::Outcome> for Outcome {
    fn from(outcome: types::Outcome) -> Self {
        match outcome {
            types::Outcome::Done(output) => Self::Done {
                documents: output
                    .documents
                    .into_iter()
                    .map(|document| (document.name, document.body))
                    .collect(),
                conditions: output.conditions.into_iter().map(condition).collect(),
            },
            types::Outcome::NotReady(reason) => Self::NotReady(reason),
        }
    }
}

fn condition(condition: types::Condition) -> Condition {
    Condition {
        scope: match condition.scope {
            types::Scope::Object => Scope::Object,
            types::Scope::Section(name) => Scope::Section(name),
            types::Scope::Parent(parent) => Scope::Parent(ParentRef {
                object: parent.object.into(),
                section: parent.section,
                port: parent.port,
            }),
        },
        r#type: condition.type_,
        status: match condition.status {
            types::ConditionStatus::True => ConditionStatus::True,
            types::ConditionStatus::False => ConditionStatus::False,
            types::ConditionStatus::Unknown => ConditionStatus::Unknown,
        },
        reason: condition.reason,
        message: condition.message,
    }
}

impl From<reconciler::Role> for Role {
    fn from(role: reconciler::Role) -> Self {
        match role {
            reconciler::Role::Gateway => Self::Gateway,
            reconciler::Role::Route => Self::Route,
            reconciler::Role::Api => Self::Api,
            reconciler::Role::Policy => Self::Policy,
        }
    }
}

/// A module's description, or the sentence that says what is wrong with it.
pub(super) fn description(described: reconciler::Description) -> Result<Description, String> {
    let settings_schema = match described.settings_schema.as_slice() {
        [] => None,
        bytes => Some(
            serde_json::from_slice(bytes)
                .map_err(|error| format!("its settings-schema is not JSON: {error}"))?,
        ),
    };
    Ok(Description {
        name: described.name,
        version: described.version,
        role: described.role.into(),
        handles: described.handles.into_iter().map(Into::into).collect(),
        reads: described.reads.into_iter().map(Into::into).collect(),
        settings_schema,
    })
}
