//! From the end of a run to what is kept for the object.
//!
//! A good run replaces what was there. Any other keeps the last good result of the same module and
//! says why; where there is none, the module's failure policy decides.

use super::output::{Documents, Reconciled, RunState};
use crate::modules::{FailurePolicy, LiveModule};
use crate::sandbox::Role;
use crate::store::Object;
use chiton_ir::condition::words;
use chiton_ir::identity::names::{CHITON_GROUP, GATEWAY_GROUP};
use chiton_ir::policy::Target;
use chiton_ir::{Condition, ConditionStatus, ObjectRef, Scope};
use std::sync::Arc;

/// Type of the condition that says that a served result is not of the newest form of the object,
/// or that there is none, because of the module. It is only there while that is so, and False.
pub const RECONCILED: &str = "Reconciled";
/// Reason: the module failed.
pub const MODULE_FAILED: &str = "ModuleFailed";
/// Reason: the module is known and has no live version.
pub const MODULE_NOT_LIVE: &str = "ModuleNotLive";
/// Reason: no module has the name that the policy's type says.
pub const MODULE_NOT_FOUND: &str = "ModuleNotFound";
/// Reason: what the module waits for did not come before the deadline.
pub const NOT_READY: &str = "NotReady";

/// The result of a run that ended well. Where it refuses a policy that must not be open by mistake,
/// the policy is closed instead.
pub(super) fn good(
    module: &LiveModule,
    object: &Object,
    documents: Documents,
    conditions: Arc<[Condition]>,
) -> Reconciled {
    let accepted = |status| {
        conditions.iter().any(|it| {
            it.r#type == words::ACCEPTED && it.scope == Scope::Object && it.status == status
        })
    };
    let refused = accepted(ConditionStatus::False) || !accepted(ConditionStatus::True);
    let mut result = Reconciled {
        module: module.name.clone(),
        documents,
        conditions,
        state: RunState::Good,
        generation: object.generation,
    };
    if refused && is_closed(module) && result.documents.policy.is_none() {
        close(object, &mut result);
    }
    result
}

/// The result for an object that is its author's fault: no documents, and the reason. A policy that
/// must not be open by mistake is closed.
pub(super) fn invalid(module: &LiveModule, object: &Object, condition: Condition) -> Reconciled {
    let mut result = refusal(object, condition);
    result.module.clone_from(&module.name);
    if is_closed(module) {
        close(object, &mut result);
    }
    result
}

/// No documents, and the reason.
fn refusal(object: &Object, condition: Condition) -> Reconciled {
    Reconciled {
        conditions: [condition].into(),
        generation: object.generation,
        ..Reconciled::default()
    }
}

/// Whether requests that a policy is for must be refused where it cannot say what holds.
fn is_closed(module: &LiveModule) -> bool {
    module.role == Role::Policy && module.failure_policy == FailurePolicy::FailClosed
}

/// Closes a policy that is refused, and says so.
fn close(object: &Object, result: &mut Reconciled) {
    result.documents = closed(object);
    let what = if result.documents.policy.is_some() {
        "requests to its targets are answered with 500 until it is corrected"
    } else {
        "its targets cannot be read, so nothing is protected"
    };
    let accepted = |it: &&mut Condition| {
        it.r#type == words::ACCEPTED
            && it.scope == Scope::Object
            && it.status == ConditionStatus::False
    };
    let mut conditions = result.conditions.to_vec();
    match conditions.iter_mut().find(accepted) {
        Some(condition) => condition.message = format!("{}; {what}", condition.message),
        None => conditions.push(Condition::fails(
            words::ACCEPTED,
            words::INVALID,
            format!(
                "the module {:?} returned nothing for it; {what}",
                result.module
            ),
        )),
    }
    result.conditions = conditions.into();
}

/// The result for an object that the host itself cannot give to a module.
pub(super) fn unreadable(object: &Object, message: &str) -> Reconciled {
    refusal(
        object,
        Condition::fails(words::ACCEPTED, words::INVALID, message),
    )
}

/// The result for a policy whose type no module has.
pub(super) fn unknown(object: &Object, name: &str) -> Reconciled {
    let message = format!(
        "no module is named {name:?}, so the policy has no effect; \
         correct spec.type or provide the module"
    );
    Reconciled {
        conditions: [Condition::fails(
            words::ACCEPTED,
            MODULE_NOT_FOUND,
            message.as_str(),
        )]
        .into(),
        state: RunState::NoModule(message),
        generation: object.generation,
        ..Reconciled::default()
    }
}

/// The result for a policy whose module is known and has no live version.
pub(super) fn refused(
    object: &Object,
    name: &str,
    policy: FailurePolicy,
    reason: &str,
    last_good: Option<&Reconciled>,
) -> Reconciled {
    let message = format!("the module {name:?} is not live: {reason}");
    let condition = Condition::fails(words::ACCEPTED, MODULE_NOT_LIVE, message.as_str());
    let kept = last_good.filter(|good| good.module == name);
    let (documents, generation) = match (policy, kept) {
        (FailurePolicy::KeepLast, Some(good)) => (good.documents.clone(), good.generation),
        (FailurePolicy::FailClosed, _) => (closed(object), object.generation),
        _ => (Documents::default(), object.generation),
    };
    Reconciled {
        module: String::new(),
        documents,
        conditions: [condition].into(),
        state: RunState::NoModule(message),
        generation,
    }
}

/// Why a run gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is tried again, or waits for a kind to be listed.
    Waiting,
    /// It was tried until the deadline.
    Overdue,
    /// The module failed.
    Failed,
}

/// The result after a run that gave none.
pub(super) fn kept(
    module: &LiveModule,
    object: &Object,
    trouble: Trouble,
    message: &str,
    last_good: Option<&Reconciled>,
) -> Reconciled {
    let last_good = last_good.filter(|good| good.module == module.name);
    let state = match trouble {
        Trouble::Failed => RunState::Failed(message.to_owned()),
        Trouble::Waiting | Trouble::Overdue => RunState::NotReady(message.to_owned()),
    };
    let mut result = match last_good {
        Some(good) => good.clone(),
        None => Reconciled {
            module: module.name.clone(),
            generation: object.generation,
            ..Reconciled::default()
        },
    };
    // A closed policy that has never had an effect must not start as an open one.
    if is_closed(module) && result.documents.policy.is_none() {
        result.documents = closed(object);
    }
    let mut conditions = result.conditions.to_vec();
    conditions.extend(explain(module, trouble, message, last_good.is_some()));
    result.conditions = conditions.into();
    result.state = state;
    result
}

/// What the status says of it.
fn explain(
    module: &LiveModule,
    trouble: Trouble,
    message: &str,
    has_good: bool,
) -> Option<Condition> {
    let name = &module.name;
    let (reason, what) = match trouble {
        Trouble::Waiting if has_good => return None,
        Trouble::Waiting => (
            words::PENDING,
            format!("the module {name:?} waits: {message}"),
        ),
        Trouble::Overdue => (
            NOT_READY,
            format!("the module {name:?} waited until the deadline: {message}"),
        ),
        Trouble::Failed => (
            MODULE_FAILED,
            format!("the module {name:?} failed: {message}"),
        ),
    };
    if has_good {
        let message = format!("{what}; the last good result stays");
        return Some(Condition::fails(RECONCILED, reason, message));
    }
    let mut condition = Condition::fails(words::ACCEPTED, reason, what);
    if trouble == Trouble::Waiting {
        condition.status = ConditionStatus::Unknown;
    }
    Some(condition)
}

/// The documents of a closed policy.
fn closed(object: &Object) -> Documents {
    Documents::closing(target_refs(object))
}

/// `spec.targetRefs`, as far as it can be read. What is unclear is taken for more, not for less: a
/// section that cannot be read for the whole object, a group that is not given for the usual one.
fn target_refs(object: &Object) -> Vec<Target> {
    let body: serde_json::Value = serde_json::from_slice(&object.body).unwrap_or_default();
    let target = |reference: &serde_json::Value| {
        let text = |field| reference.get(field).and_then(serde_json::Value::as_str);
        let kind = text("kind")?;
        let group = text("group").unwrap_or(match kind {
            "API" => CHITON_GROUP,
            _ => GATEWAY_GROUP,
        });
        Some(Target {
            object: ObjectRef::new(group, kind, object.key.namespace.as_str(), text("name")?),
            section: text("sectionName").map(str::to_owned),
        })
    };
    let references = body
        .pointer("/spec/targetRefs")
        .and_then(serde_json::Value::as_array);
    references
        .into_iter()
        .flatten()
        .filter_map(target)
        .collect()
}
