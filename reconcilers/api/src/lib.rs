//! The built-in API reconciler: what an `API` means.
//!
//! An API publishes one or two HTTPRoutes of its namespace, for production and for the sandbox,
//! under a base path and a version. The routes' own rules come behind that prefix. This reconciler
//! says which prefixes and which routes; the host composes them, and finds conflicts between APIs.

mod prefixes;

use chiton_guest::ir::api::{Api, SandboxHeader};
use chiton_guest::ir::check::http;
use chiton_guest::ir::condition::words;
use chiton_guest::ir::identity::names;
use chiton_guest::ir::kinds::{ApiSpec, HeaderValue, LocalRoute};
use chiton_guest::{Condition, Context, Error, Object, ObjectRef, Output, Raw, Reconciler, Role};
use serde::de::IgnoredAny;

/// Reason of a reference to a route that does not exist.
const ROUTE_NOT_FOUND: &str = "RouteNotFound";

/// The reconciler.
pub struct Apis;

impl Reconciler for Apis {
    const NAME: &'static str = "api";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ROLE: Role = Role::Api;
    const HANDLES: &'static [(&'static str, &'static str)] = &[(names::CHITON_GROUP, "API")];
    const READS: &'static [(&'static str, &'static str)] = &[(names::GATEWAY_GROUP, "HTTPRoute")];

    fn reconcile(object: &Raw, cx: &mut Context) -> Result<Output, Error> {
        let spec: ApiSpec = object.decode::<Object<_>>()?.spec;
        let api = convert(&spec, &object.reference.namespace).map_err(Error::invalid)?;
        Output::none()
            .condition(Condition::holds(words::ACCEPTED, words::ACCEPTED))
            .condition(resolved(&api, cx))
            .document(&api)
    }
}

/// The document, or what is wrong with the spec.
fn convert(spec: &ApiSpec, namespace: &str) -> Result<Api, String> {
    let prefixes = prefixes::of(&spec.base_path, &spec.version, spec.is_default_version)?;
    if spec.production.is_none() && spec.sandbox.is_none() {
        return Err("spec: names no route: give production, sandbox or both".into());
    }
    let reference = |field: &str, route: Option<&LocalRoute>| match route {
        Some(route) if route.name.is_empty() => {
            Err(format!("spec.{field}.name: must not be empty"))
        }
        route => Ok(route.map(|route| {
            ObjectRef::new(names::GATEWAY_GROUP, "HTTPRoute", namespace, &route.name)
        })),
    };
    let production = reference("production", spec.production.as_ref())?;
    let sandbox = reference("sandbox", spec.sandbox.as_ref())?;
    let sandbox_header = spec
        .sandbox_header
        .as_ref()
        .map(sandbox_header)
        .transpose()?;
    if production == sandbox && sandbox_header.is_none() {
        return Err(
            "spec.sandbox: is the route of production too: name another, or choose it by \
             sandboxHeader"
                .into(),
        );
    }
    if sandbox.is_none() && sandbox_header.is_some() {
        return Err(
            "spec.sandboxHeader: chooses a sandbox, and there is none: give sandbox".into(),
        );
    }
    Ok(Api {
        prefixes,
        production,
        sandbox,
        sandbox_header,
    })
}

fn sandbox_header(header: &HeaderValue) -> Result<SandboxHeader, String> {
    http::header_name(&header.name)
        .map_err(|message| format!("spec.sandboxHeader.name: {message}"))?;
    http::header_value(&header.value)
        .map_err(|message| format!("spec.sandboxHeader.value: {message}"))?;
    Ok(SandboxHeader {
        name: header.name.to_ascii_lowercase(),
        value: header.value.clone(),
    })
}

/// Whether the routes exist.
fn resolved(api: &Api, cx: &mut Context) -> Condition {
    let missing: Vec<String> = [&api.production, &api.sandbox]
        .into_iter()
        .flatten()
        // A route that cannot be read is there; its own conditions say what is wrong.
        .filter(|route| matches!(cx.get::<IgnoredAny>(route), Ok(None)))
        .map(ToString::to_string)
        .collect();
    if missing.is_empty() {
        return Condition::holds(words::RESOLVED_REFS, words::RESOLVED_REFS);
    }
    let message = format!("{} does not exist", missing.join(" and "));
    Condition::fails(words::RESOLVED_REFS, ROUTE_NOT_FOUND, message)
}

chiton_guest::export!(Apis);

#[cfg(test)]
mod tests;
