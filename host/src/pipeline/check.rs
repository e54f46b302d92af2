//! What crosses the boundary is checked here: settings before a policy's module sees them, and
//! documents after a module returned them.
//!
//! A document that is not what `chiton_ir` says is the module's fault. A setting that is not what
//! the module's schema says is the author's of the policy.

use super::output::Documents;
use crate::sandbox::Role;
use crate::store::{Key, Object};
use chiton_ir::condition::words;
use chiton_ir::policy::Effect;
use chiton_ir::{Condition, Scope, documents, gateway, policy, route};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Conditions that one run may return.
const MAX_CONDITIONS: usize = 1024;
/// Characters of a schema error that go into a condition.
const MAX_REASON: usize = 1000;
/// The shortest interval of a rate limit that a proxy accepts, in milliseconds.
const MIN_INTERVAL_MS: u64 = 50;
/// Bytes of a fixed answer's body.
const MAX_BODY: usize = 4096;

/// Checks `spec.default` and `spec.override` of a `Policy` against its module's schema.
pub(super) fn settings(
    object: &Object,
    schema: &jsonschema::Validator,
) -> Result<(), Box<Condition>> {
    let invalid =
        |message: String| Box::new(Condition::fails(words::ACCEPTED, words::INVALID, message));
    let body: serde_json::Value = serde_json::from_slice(&object.body)
        .map_err(|error| invalid(format!("the object is not JSON: {error}")))?;
    for field in ["default", "override"] {
        let Some(value) = body.pointer(&format!("/spec/{field}")) else {
            continue;
        };
        if let Some(error) = schema.iter_errors(value).next() {
            let path = json_path(&error.instance_path().to_string());
            let mut reason = error.to_string();
            if let Some((end, _)) = reason.char_indices().nth(MAX_REASON) {
                reason.truncate(end);
            }
            return Err(invalid(format!("spec.{field}{path}: {reason}")));
        }
    }
    Ok(())
}

/// `/a/0/b` as `.a[0].b`.
fn json_path(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push('[');
            path.push_str(&part);
            path.push(']');
        } else {
            path.push('.');
            path.push_str(&part);
        }
    }
    path
}

/// Checks and types documents that were saved for an object, as those that a module returns.
pub(super) fn restored(
    key: &Key,
    documents: Vec<(String, Arc<[u8]>)>,
) -> Result<Documents, String> {
    let role = match documents.first().map(|(name, _)| name.as_str()) {
        Some(documents::GATEWAY) => Role::Gateway,
        Some(documents::ROUTE) => Role::Route,
        Some(documents::API) => Role::Api,
        _ => Role::Policy,
    };
    let documents = documents
        .into_iter()
        .map(|(name, body)| (name, body.to_vec()));
    typed(role, key, documents.collect())
}

/// Checks and types the documents that a module of a role returned for an object.
pub(super) fn typed(
    role: Role,
    key: &Key,
    returned: Vec<(String, Vec<u8>)>,
) -> Result<Documents, String> {
    let mut checked = Documents::default();
    for (name, body) in returned {
        if checked.json(&name).is_some() {
            return Err(format!("returned the document {name:?} twice"));
        }
        match (role, name.as_str()) {
            (Role::Gateway, documents::GATEWAY) => {
                let document = decode(&name, &body)?;
                gateway_bounds(&document).map_err(|error| in_document(&name, &error))?;
                checked.gateway = Some(Arc::new(document));
            }
            (Role::Route, documents::ROUTE) => {
                decode::<route::Route>(&name, &body)?;
            }
            (Role::Api, documents::API) => checked.api = Some(Arc::new(decode(&name, &body)?)),
            (Role::Policy, documents::POLICY) => {
                let document = decode(&name, &body)?;
                policy_bounds(key, &document).map_err(|error| in_document(&name, &error))?;
                checked.policy = Some(Arc::new(document));
            }
            _ => {
                return Err(format!(
                    "returned a document {name:?}, which a {role:?} reconciler may not return"
                ));
            }
        }
        checked.json.push((name, body.into()));
    }
    checked.json.sort();
    checked.json.shrink_to_fit();
    Ok(checked)
}

/// Checks the conditions that a module returned.
pub(super) fn conditions(returned: &[Condition]) -> Result<(), String> {
    if returned.len() > MAX_CONDITIONS {
        return Err(format!(
            "returned {} conditions; at most {MAX_CONDITIONS} are allowed",
            returned.len()
        ));
    }
    let mut seen: BTreeSet<(&Scope, &str)> = BTreeSet::new();
    for condition in returned {
        if !seen.insert((&condition.scope, &condition.r#type)) {
            return Err(format!(
                "returned the condition {} twice in one scope",
                condition.r#type
            ));
        }
    }
    Ok(())
}

/// Decodes strictly: `chiton-ir` lets a reconciler read documents of a newer host, but what the host
/// does not understand whole it must not serve.
fn decode<T: DeserializeOwned + Clone>(name: &str, body: &[u8]) -> Result<T, String> {
    let mut unknown = None;
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(body);
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let decoded = serde_ignored::deserialize(tracked, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let document: T =
        decoded.map_err(|error| in_document(name, &format!("{}: {error}", track.path())))?;
    json.end()
        .map_err(|error| in_document(name, &error.to_string()))?;
    match unknown {
        Some(path) => Err(in_document(name, &format!("unknown field `{path}`"))),
        // A clone has no spare room, which lists that grew while they were read have plenty of.
        None => Ok(document.clone()),
    }
}

fn in_document(name: &str, error: &str) -> String {
    format!("the document {name:?} is invalid: {error}")
}

fn gateway_bounds(document: &gateway::Gateway) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (at, listener) in document.listeners.iter().enumerate() {
        if listener.port == 0 {
            return Err(format!("listeners[{at}].port: 0 is no port"));
        }
        if listener.accepted
            && listener.tls.is_some() != (listener.protocol == gateway::Protocol::Https)
        {
            return Err(format!(
                "listeners[{at}].tls: it must be there for https and only there"
            ));
        }
        if listener.accepted && !names.insert(&listener.name) {
            return Err(format!(
                "listeners[{at}].name: {:?} is there twice",
                listener.name
            ));
        }
    }
    Ok(())
}

fn policy_bounds(key: &Key, document: &policy::Policy) -> Result<(), String> {
    for (at, target) in document.targets.iter().enumerate() {
        if target.object.namespace != key.namespace {
            return Err(format!(
                "targets[{at}]: {} is not in the policy's own namespace",
                target.object
            ));
        }
    }
    for (level, effects) in [
        ("default", &document.default),
        ("override", &document.r#override),
    ] {
        let mut names = BTreeSet::new();
        for (at, effect) in effects.iter().enumerate() {
            effect_bounds(effect)
                .map_err(|error| format!("{level}[{at}].{}: {error}", effect.name()))?;
            if !names.insert(effect.name()) {
                return Err(format!("{level}[{at}]: {} is there twice", effect.name()));
            }
        }
    }
    Ok(())
}

fn effect_bounds(effect: &Effect) -> Result<(), String> {
    match effect {
        Effect::RateLimit(limit) => {
            if limit.requests == 0 {
                return Err("requests must be at least 1".into());
            }
            if limit.interval_ms < MIN_INTERVAL_MS {
                return Err(format!("intervalMs must be at least {MIN_INTERVAL_MS}"));
            }
            if limit.burst.is_some_and(|burst| burst < limit.requests) {
                return Err("burst must be at least requests".into());
            }
        }
        Effect::ApiKey(key) if key.sources.is_empty() => {
            return Err("sources must name at least one place".into());
        }
        Effect::Respond(respond) => {
            if !(200..=599).contains(&respond.status) {
                return Err(format!("status {} is not in 200 to 599", respond.status));
            }
            if respond.body.len() > MAX_BODY {
                return Err(format!("body is over {MAX_BODY} bytes"));
            }
        }
        _ => {}
    }
    Ok(())
}
