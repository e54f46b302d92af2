//! `GatewayClass`: which Gateways are ours.

use chiton_guest::ir::condition::words;
use chiton_guest::ir::identity::names;
use chiton_guest::{Condition, Context, Object, ObjectRef, Output, Raw};
use gateway_api::apis::standard::gatewayclasses::GatewayClassSpec;
use serde::Deserialize;

/// Reason of parameters that are not understood; none are.
pub const INVALID_PARAMETERS: &str = "InvalidParameters";

/// As much of a class as is needed to see whose it is.
#[derive(Deserialize)]
struct Outline {
    spec: OutlineSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineSpec {
    controller_name: String,
    #[serde(default)]
    parameters_ref: Option<serde_json::Value>,
}

/// The condition of a class of ours; nothing for another.
pub fn reconcile(object: &Raw) -> Output {
    let outline = object.lenient::<Outline>();
    if outline.is_some_and(|class| class.spec.controller_name != names::CONTROLLER) {
        return Output::none();
    }
    Output::none().condition(match object.decode::<Object<GatewayClassSpec>>() {
        Err(condition) => condition,
        Ok(class) if class.spec.parameters_ref.is_some() => Condition::fails(
            words::ACCEPTED,
            INVALID_PARAMETERS,
            "spec.parametersRef: this controller takes no parameters: remove it",
        ),
        Ok(_) => Condition::holds(words::ACCEPTED, words::ACCEPTED),
    })
}

/// What a Gateway needs to know of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Ours and accepted.
    Accepted,
    /// Ours, with parameters that are not understood.
    Refused,
    /// Another controller's, or it does not exist.
    Foreign,
}

/// Reads the class of a Gateway.
pub fn read(name: &str, cx: &mut Context) -> Class {
    let object = ObjectRef::new(names::GATEWAY_GROUP, "GatewayClass", "", name);
    match cx.get::<Outline>(&object) {
        Ok(Some(class)) if class.spec.controller_name != names::CONTROLLER => Class::Foreign,
        Ok(Some(class)) if class.spec.parameters_ref.is_some() => Class::Refused,
        Ok(Some(_)) => Class::Accepted,
        // A class that says of no controller whose it is belongs to nobody.
        Ok(None) | Err(_) => Class::Foreign,
    }
}
