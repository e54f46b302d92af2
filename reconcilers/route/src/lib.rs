//! The built-in route reconciler: what an `HTTPRoute` means.
//!
//! One pure function from the route, the `gateway` documents of its parents, and the labels of its
//! namespace where a listener asks for them, to a `route` document and the conditions per parent.
//! It follows no reference to a backend: it returns them, and the host does.
//!
//! A mistake has one of three outcomes, from the Gateway API:
//! - What an API server would refuse as a whole (a wrong type, an unknown field, too many rules, a
//!   hostname that is not one) gives no document and `Accepted=False` at each parent.
//! - A rule that cannot be served as it is written (an expression that RE2 refuses, filters that
//!   contradict each other) is answered with 500, and `PartiallyInvalid=True` names it (GEP-1364).
//!   If no rule is left, `Accepted=False`; its requests are still answered with 500, so that they do
//!   not fall to a wider route. What a match takes that is itself not valid nobody can know: it takes
//!   nothing, and a rule of which no match is left is not there.
//! - A parent that does not take the route has `Accepted=False` with the reason of the spec.

mod attach;
mod backends;
mod fault;
mod filters;
mod limits;
mod matches;
mod parents;
mod rules;
mod timeouts;
mod urls;

use chiton_guest::ir::identity::names;
use chiton_guest::ir::route;
use chiton_guest::{Context, Error, Output, Raw, Reconciler, Role};
use gateway_api::apis::standard::httproutes::HttpRouteSpec;
use parents::Parents;

/// The reconciler.
pub struct HttpRoutes;

impl Reconciler for HttpRoutes {
    const NAME: &'static str = "route";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ROLE: Role = Role::Route;
    const HANDLES: &'static [(&'static str, &'static str)] = &[(names::GATEWAY_GROUP, "HTTPRoute")];
    const READS: &'static [(&'static str, &'static str)] =
        &[(names::GATEWAY_GROUP, "Gateway"), ("", "Namespace")];

    fn reconcile(object: &Raw, cx: &mut Context) -> Result<Output, Error> {
        let parents = Parents::read(object, cx)?;
        let spec = match limits::decode(object) {
            Ok(spec) => spec,
            Err(condition) => return Ok(Output::none().conditions(parents.refuse(&condition))),
        };
        accepted(&object.reference.namespace, spec, &parents, cx)
    }
}

/// The output for a route that is well-formed as a whole.
fn accepted(
    namespace: &str,
    spec: HttpRouteSpec,
    parents: &Parents,
    cx: &mut Context,
) -> Result<Output, Error> {
    let hostnames = spec.hostnames.unwrap_or_default();
    let rules = rules::convert(spec.rules.unwrap_or_default(), namespace);
    let attached = attach::attach(parents, namespace, &hostnames, cx)?;
    let mut output = Output::none();
    for attachment in &attached {
        output = output.conditions(rules.conditions(attachment));
    }
    let ours: Vec<route::RouteParent> = attached
        .into_iter()
        .filter_map(attach::Attachment::into_parent)
        .collect();
    if ours.is_empty() {
        return Ok(output);
    }
    output.document(&route::Route {
        parents: ours,
        rules: rules.served,
    })
}

chiton_guest::export!(HttpRoutes);

#[cfg(test)]
mod tests;
