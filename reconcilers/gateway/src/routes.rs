//! Which routes may attach to a listener.

use crate::listener::Problem;
use chiton_guest::GroupKind;
use chiton_guest::ir::gateway::{LabelOperator, LabelRequirement, LabelSelector, NamespaceScope};
use chiton_guest::ir::identity::names;
use gateway_api::apis::standard::gateways::{
    GatewayListenersAllowedRoutesKinds as SpecKind,
    GatewayListenersAllowedRoutesNamespaces as SpecNamespaces,
    GatewayListenersAllowedRoutesNamespacesFrom as From,
    GatewayListenersAllowedRoutesNamespacesSelectorMatchExpressions as SpecRequirement,
};

/// Whose routes may attach. Nothing given: those of the Gateway's own namespace.
pub fn namespaces(spec: Option<&SpecNamespaces>) -> Result<NamespaceScope, String> {
    let Some(spec) = spec else {
        return Ok(NamespaceScope::Same);
    };
    match spec.from {
        None | Some(From::Same) => Ok(NamespaceScope::Same),
        Some(From::All) => Ok(NamespaceScope::All),
        Some(From::Selector) => {
            let at = "allowedRoutes.namespaces.selector";
            let selector = spec
                .selector
                .as_ref()
                .ok_or_else(|| format!("{at}: is needed with `from: Selector`"))?;
            let expressions = selector.match_expressions.iter().flatten();
            let match_expressions = expressions
                .enumerate()
                .map(|(index, one)| {
                    requirement(one)
                        .map_err(|message| format!("{at}.matchExpressions[{index}]: {message}"))
                })
                .collect::<Result<_, _>>()?;
            Ok(NamespaceScope::Selector(LabelSelector {
                match_labels: selector.match_labels.clone().unwrap_or_default(),
                match_expressions,
            }))
        }
    }
}

fn requirement(spec: &SpecRequirement) -> Result<LabelRequirement, String> {
    let operator = match spec.operator.as_str() {
        "In" => LabelOperator::In,
        "NotIn" => LabelOperator::NotIn,
        "Exists" => LabelOperator::Exists,
        "DoesNotExist" => LabelOperator::DoesNotExist,
        other => {
            return Err(format!(
                "operator {other:?} is not known: use In, NotIn, Exists or DoesNotExist"
            ));
        }
    };
    let values = spec.values.clone().unwrap_or_default();
    let needs_values = matches!(operator, LabelOperator::In | LabelOperator::NotIn);
    if needs_values == values.is_empty() {
        return Err(format!(
            "values must {} with operator {}",
            if needs_values {
                "be given"
            } else {
                "not be given"
            },
            spec.operator
        ));
    }
    if spec.key.is_empty() {
        return Err("key must not be empty".into());
    }
    Ok(LabelRequirement {
        key: spec.key.clone(),
        operator,
        values,
    })
}

/// The kinds that may attach, of those that are supported, and which are not. Nothing given: what
/// the protocol takes.
pub fn kinds(specs: &[SpecKind]) -> (Vec<GroupKind>, Option<Problem>) {
    let supported = GroupKind::new(names::GATEWAY_GROUP, "HTTPRoute");
    if specs.is_empty() {
        return (vec![supported], None);
    }
    let mut kinds = Vec::new();
    let mut unknown = Vec::new();
    for spec in specs {
        let group = spec.group.as_deref().unwrap_or(names::GATEWAY_GROUP);
        let kind = GroupKind::new(group, &spec.kind);
        if kind != supported {
            unknown.push(kind.to_string());
        } else if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let problem = (!unknown.is_empty()).then(|| Problem {
        reason: "InvalidRouteKinds",
        message: format!(
            "allowedRoutes.kinds: {} cannot attach to this listener: only HTTPRoute can",
            unknown.join(", ")
        ),
    });
    (kinds, problem)
}
