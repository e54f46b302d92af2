//! `Gateway`: its listeners and addresses, and what their mistakes mean for the whole.

use crate::class::{self, Class, INVALID_PARAMETERS};
use crate::conflicts;
use crate::listener::{self, Draft};
use chiton_guest::ir::check;
use chiton_guest::ir::condition::words;
use chiton_guest::ir::gateway::Gateway;
use chiton_guest::{Condition, Context, Error, Object, Output, Raw};
use gateway_api::apis::standard::gateways::{
    GatewayAddresses, GatewayAllowedListenersNamespacesFrom as ListenersFrom, GatewayListeners,
    GatewaySpec,
};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most listeners and addresses, as in the CRD of the Gateway API.
const MAX_LISTENERS: usize = 64;
const MAX_ADDRESSES: usize = 16;
const LISTENERS_NOT_VALID: &str = "ListenersNotValid";

/// As much of a Gateway as is needed to see whose it is.
#[derive(Deserialize)]
struct Outline {
    spec: OutlineSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineSpec {
    gateway_class_name: String,
}

/// The document and conditions of a Gateway of ours; nothing for another.
pub fn reconcile(object: &Raw, cx: &mut Context) -> Result<Output, Error> {
    let class = match object.lenient::<Outline>() {
        Some(outline) => class::read(&outline.spec.gateway_class_name, cx),
        None => Class::Accepted,
    };
    if class == Class::Foreign {
        return Ok(Output::none());
    }
    let spec = match object.decode::<Object<GatewaySpec>>() {
        Ok(gateway) => gateway.spec,
        Err(condition) => return refused(condition),
    };
    if class == Class::Refused {
        let message = format!("GatewayClass {} is not accepted", spec.gateway_class_name);
        return refused(Condition::fails(
            words::ACCEPTED,
            INVALID_PARAMETERS,
            message,
        ));
    }
    if let Err(condition) = check(&spec) {
        return refused(*condition);
    }
    accepted(&object.reference.namespace, &spec)
}

/// A Gateway that is refused as a whole: ours, and without a listener.
fn refused(condition: Condition) -> Result<Output, Error> {
    Output::none()
        .condition(condition)
        .document(&Gateway::default())
}

fn accepted(namespace: &str, spec: &GatewaySpec) -> Result<Output, Error> {
    let mut drafts = Vec::with_capacity(spec.listeners.len());
    for (index, listener) in spec.listeners.iter().enumerate() {
        match listener::draft(listener, namespace) {
            Ok(draft) => drafts.push(draft),
            Err(message) => return refused(invalid(format!("spec.listeners[{index}].{message}"))),
        }
    }
    conflicts::find(&mut drafts);
    let (addresses, address_fault) = addresses(spec.addresses.as_deref().unwrap_or_default());
    let whole = address_fault.unwrap_or_else(|| summary(&drafts, spec));
    let serves = whole.status == chiton_guest::ConditionStatus::True;
    let mut output = Output::none().condition(whole);
    let mut listeners = Vec::with_capacity(drafts.len());
    for draft in drafts {
        output = output.conditions(draft.conditions());
        let mut listener = draft.into_listener();
        listener.accepted &= serves;
        listeners.push(listener);
    }
    output.document(&Gateway {
        listeners,
        addresses,
    })
}

fn invalid(message: impl Into<String>) -> Condition {
    Condition::fails(words::ACCEPTED, words::INVALID, message)
}

/// `Accepted` of the Gateway from that of its listeners.
fn summary(drafts: &[Draft], spec: &GatewaySpec) -> Condition {
    let names = |accepted: bool| -> Vec<&str> {
        drafts
            .iter()
            .filter(|draft| draft.is_accepted() == accepted)
            .map(Draft::name)
            .collect()
    };
    let (good, bad) = (names(true), names(false));
    if bad.is_empty() {
        let mut condition = Condition::holds(words::ACCEPTED, words::ACCEPTED);
        if admits_listener_sets(spec) {
            "spec.allowedListeners is ignored: ListenerSets are not supported"
                .clone_into(&mut condition.message);
        }
        return condition;
    }
    let message = format!("not accepted: {}; accepted: {}", list(&bad), list(&good));
    if good.is_empty() {
        return Condition::fails(words::ACCEPTED, LISTENERS_NOT_VALID, message);
    }
    let mut condition = Condition::holds(words::ACCEPTED, LISTENERS_NOT_VALID);
    condition.message = message;
    condition
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn admits_listener_sets(spec: &GatewaySpec) -> bool {
    let namespaces = spec
        .allowed_listeners
        .as_ref()
        .and_then(|all| all.namespaces.as_ref());
    namespaces
        .and_then(|namespaces| namespaces.from.as_ref())
        .is_some_and(|from| *from != ListenersFrom::None)
}

/// What makes a Gateway invalid as a whole.
fn check(spec: &GatewaySpec) -> Result<(), Box<Condition>> {
    if spec
        .infrastructure
        .as_ref()
        .is_some_and(|all| all.parameters_ref.is_some())
    {
        return Err(Box::new(Condition::fails(
            words::ACCEPTED,
            INVALID_PARAMETERS,
            "spec.infrastructure.parametersRef: this controller takes no parameters: remove it",
        )));
    }
    // To ignore it would let in clients without a certificate.
    if spec.tls.is_some() {
        return Err(Box::new(Condition::fails(
            words::ACCEPTED,
            words::UNSUPPORTED_VALUE,
            "spec.tls: certificates of clients and for backends are not supported: remove it",
        )));
    }
    listeners(&spec.listeners).map_err(|message| Box::new(invalid(message)))
}

fn listeners(listeners: &[GatewayListeners]) -> Result<(), String> {
    if listeners.is_empty() || listeners.len() > MAX_LISTENERS {
        return Err(format!(
            "spec.listeners: has {} entries, 1 to {MAX_LISTENERS} are allowed",
            listeners.len()
        ));
    }
    let mut names = BTreeSet::new();
    for (index, listener) in listeners.iter().enumerate() {
        check::section_name(&listener.name)
            .map_err(|message| format!("spec.listeners[{index}].name: {message}"))?;
        if !names.insert(&listener.name) {
            return Err(format!(
                "spec.listeners[{index}].name: {:?} is the name of another listener: give each its \
                 own",
                listener.name
            ));
        }
    }
    Ok(())
}

/// The IP addresses that a Gateway asks for, and what is wrong with them.
fn addresses(specs: &[GatewayAddresses]) -> (Vec<String>, Option<Condition>) {
    if specs.len() > MAX_ADDRESSES {
        let message = format!(
            "spec.addresses: has {} entries, at most {MAX_ADDRESSES} are allowed",
            specs.len()
        );
        return (Vec::new(), Some(invalid(message)));
    }
    let mut addresses = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let at = format!("spec.addresses[{index}]");
        let r#type = spec.r#type.as_deref().unwrap_or("IPAddress");
        if r#type != "IPAddress" {
            let fault = Condition::fails(
                words::ACCEPTED,
                "UnsupportedAddress",
                format!("{at}.type: {type:?} is not supported: use IPAddress"),
            );
            return (Vec::new(), Some(fault));
        }
        // Without a value the host's default is meant.
        let Some(value) = spec.value.as_deref().filter(|value| !value.is_empty()) else {
            continue;
        };
        let Ok(address) = value.parse::<IpAddr>() else {
            let message = format!("{at}.value: {value:?} is not an IP address");
            return (Vec::new(), Some(invalid(message)));
        };
        let address = address.to_string();
        if addresses.contains(&address) {
            let message = format!("{at}.value: {value:?} is there twice: keep one");
            return (Vec::new(), Some(invalid(message)));
        }
        addresses.push(address);
    }
    (addresses, None)
}
