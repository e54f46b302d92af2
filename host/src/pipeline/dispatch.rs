//! Which module owns an object.

use super::layer::Layer;
use crate::modules::{FailurePolicy, LiveModule, Modules, PolicyModule};
use crate::store::{Key, Object};
use chiton_ir::GroupKind;
use chiton_ir::identity::names::CHITON_GROUP;
use serde::Deserialize;
use std::sync::Arc;

/// Who answers for an object.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    /// A live module.
    Module(Arc<LiveModule>),
    /// A policy module that is known and has no live version.
    Refused {
        name: String,
        failure_policy: FailurePolicy,
        reason: String,
    },
    /// A `Policy` of a type that no module has.
    Unknown { name: String },
    /// The object cannot be given to any module; why.
    Invalid(String),
}

/// Whether a kind is that of `Policy`, whose objects go to modules by `spec.type`.
pub(super) fn is_policy(group: &str, kind: &str) -> bool {
    group == CHITON_GROUP && kind == "Policy"
}

/// The layer in which an object of this identity is reconciled; none if nobody reconciles its kind.
pub(super) fn layer(key: &Key, modules: &Modules) -> Option<Layer> {
    if is_policy(&key.group, &key.kind) {
        return Some(Layer::Base);
    }
    let module = modules.for_kind(&GroupKind::new(key.group.as_str(), key.kind.as_str()))?;
    Some(module.role.into())
}

/// Who answers for an object; none if nobody reconciles its kind.
pub(super) fn owner(object: &Object, modules: &Modules) -> Option<Owner> {
    layer(&object.key, modules)?;
    if let Some(problem) = &object.problem {
        return Some(Owner::Invalid(problem.clone()));
    }
    if !is_policy(&object.key.group, &object.key.kind) {
        return modules
            .for_kind(&object.key.group_kind())
            .map(Owner::Module);
    }
    let Some(name) = policy_type(object) else {
        return Some(Owner::Invalid(
            "spec.type: it must be a string that names the module for the policy".into(),
        ));
    };
    Some(match modules.policy(&name) {
        PolicyModule::Live(module) => Owner::Module(module),
        PolicyModule::Refused {
            failure_policy,
            reason,
        } => Owner::Refused {
            name,
            failure_policy,
            reason,
        },
        PolicyModule::Unknown => Owner::Unknown { name },
    })
}

/// `spec.type` of a `Policy`.
pub(super) fn policy_type(object: &Object) -> Option<String> {
    #[derive(Deserialize)]
    struct Policy {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        r#type: String,
    }
    serde_json::from_slice::<Policy>(&object.body)
        .ok()
        .map(|policy| policy.spec.r#type)
}
