//! Policies: settings in, effects out.

use crate::decode::Object;
use crate::reconciler::{Error, Output, Raw, Reconciler, Role};
use crate::{Condition, Context, ObjectRef};
use chiton_ir::condition::words;
use chiton_ir::identity::names;
use chiton_ir::kinds::TargetRef;
use chiton_ir::policy::{Effect, Policy as PolicyDocument, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Most targets that a policy may have.
const MAX_TARGETS: usize = 16;

/// A policy: the one function that its author writes. `Policy` objects whose `spec.type` is
/// [`Policy::NAME`] come here; the SDK decodes them strictly, checks their targets, and calls
/// [`Policy::effects`] for `default` and for `override`, as far as they are there.
pub trait Policy {
    /// What may stand under `default` and `override`. Its JSON schema is checked by the host before
    /// the module runs, so put bounds that a schema can say there.
    type Settings: DeserializeOwned + JsonSchema;
    /// DNS label: the `spec.type` of the policies that come here.
    const NAME: &'static str;
    /// The module's own version; usually `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Group and kind of the objects that it asks to read; the core group is `""`.
    const READS: &'static [(&'static str, &'static str)] = &[];

    /// The effects of these settings. An [`Error::invalid`] refuses the whole policy: its object
    /// says why, and it has no effect.
    fn effects(settings: Self::Settings, cx: &mut Context) -> Result<Vec<Effect>, Error>;
}

/// `PolicySpec` of `chiton-ir` with typed settings, so that one decoding finds every mistake and
/// its path.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "S: Deserialize<'de>"))]
struct Spec<S> {
    #[serde(rename = "type")]
    _type: String,
    target_refs: Vec<TargetRef>,
    #[serde(default)]
    default: Option<S>,
    #[serde(default, rename = "override")]
    r#override: Option<S>,
}

impl<P: Policy> Reconciler for P {
    const NAME: &'static str = P::NAME;
    const VERSION: &'static str = P::VERSION;
    const ROLE: Role = Role::Policy;
    const HANDLES: &'static [(&'static str, &'static str)] = &[];
    const READS: &'static [(&'static str, &'static str)] = P::READS;

    fn settings_schema() -> Option<serde_json::Value> {
        let generator = schemars::SchemaGenerator::default();
        Some(generator.into_root_schema_for::<P::Settings>().to_value())
    }

    fn reconcile(object: &Raw, cx: &mut Context) -> Result<Output, Error> {
        let spec: Spec<P::Settings> = object.decode::<Object<_>>()?.spec;
        if spec.default.is_none() && spec.r#override.is_none() {
            return Err(Error::invalid(
                "spec: neither `default` nor `override` is given: put the settings under one of them",
            ));
        }
        let document = PolicyDocument {
            targets: targets(&object.reference.namespace, &spec.target_refs)?,
            default: effects::<P>("default", spec.default, cx)?,
            r#override: effects::<P>("override", spec.r#override, cx)?,
        };
        Output::none()
            .condition(Condition::holds(words::ACCEPTED, words::ACCEPTED))
            .document(&document)
    }
}

/// Calls the author's function, and puts the place before what it says of it.
fn effects<P: Policy>(
    place: &str,
    settings: Option<P::Settings>,
    cx: &mut Context,
) -> Result<Vec<Effect>, Error> {
    let Some(settings) = settings else {
        return Ok(Vec::new());
    };
    let effects = P::effects(settings, cx).map_err(|error| match error {
        Error::Invalid(mut condition) => {
            condition.message = format!("spec.{place}: {}", condition.message);
            Error::Invalid(condition)
        }
        other => other,
    })?;
    for (index, effect) in effects.iter().enumerate() {
        if effects
            .iter()
            .take(index)
            .any(|other| other.name() == effect.name())
        {
            return Err(Error::failure(format!(
                "the policy returns the effect {} twice: merge them",
                effect.name()
            )));
        }
    }
    Ok(effects)
}

/// The targets, in the policy's own namespace, each once.
fn targets(namespace: &str, refs: &[TargetRef]) -> Result<Vec<Target>, Error> {
    if refs.is_empty() || refs.len() > MAX_TARGETS {
        return Err(Error::invalid(format!(
            "spec.targetRefs: has {} entries, 1 to {MAX_TARGETS} are allowed",
            refs.len()
        )));
    }
    let mut targets = Vec::with_capacity(refs.len());
    for (index, reference) in refs.iter().enumerate() {
        let target = target(namespace, reference)
            .map_err(|problem| Error::invalid(format!("spec.targetRefs[{index}]: {problem}")))?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

fn target(namespace: &str, reference: &TargetRef) -> Result<Target, String> {
    let TargetRef {
        group, kind, name, ..
    } = reference;
    let known = match kind.as_str() {
        "Gateway" | "HTTPRoute" => group == names::GATEWAY_GROUP,
        "API" => group == names::CHITON_GROUP,
        _ => false,
    };
    if !known {
        return Err(format!(
            "a policy cannot target the kind {kind} of the group {group:?}: name a Gateway or an \
             HTTPRoute of {}, or an API of {}",
            names::GATEWAY_GROUP,
            names::CHITON_GROUP
        ));
    }
    if name.is_empty() {
        return Err("the name is empty: name the target".to_owned());
    }
    if kind == "API" && reference.section_name.is_some() {
        return Err(
            "an API has no sections: leave sectionName out, or target its HTTPRoute".to_owned(),
        );
    }
    Ok(Target {
        object: ObjectRef::new(group, kind, namespace, name),
        section: reference.section_name.clone(),
    })
}
