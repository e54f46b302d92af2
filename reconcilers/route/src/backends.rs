//! Where the requests of a rule go. References only: the host follows them.

use crate::fault::{Faults, port};
use crate::{filters, limits};
use chiton_guest::ObjectRef;
use chiton_guest::ir::route::{Backend, BackendTarget, Filter};
use gateway_api::apis::standard::httproutes::{
    HttpRouteRulesBackendRefs as SpecBackend,
    HttpRouteRulesBackendRefsFilters as SpecBackendFilter, HttpRouteRulesFilters as SpecFilter,
};

/// Largest weight (Gateway API).
const MAX_WEIGHT: i32 = 1_000_000;

/// The backends of a rule.
pub fn convert(
    at: &str,
    backends: &[SpecBackend],
    namespace: &str,
    faults: &mut Faults,
) -> Vec<Backend> {
    backends
        .iter()
        .enumerate()
        .filter_map(|(index, backend)| {
            convert_one(
                &format!("{at}.backendRefs[{index}]"),
                backend,
                namespace,
                faults,
            )
        })
        .collect()
}

fn convert_one(
    at: &str,
    spec: &SpecBackend,
    namespace: &str,
    faults: &mut Faults,
) -> Option<Backend> {
    let reference = Reference {
        group: spec.group.as_deref(),
        kind: spec.kind.as_deref(),
        namespace: spec.namespace.as_deref(),
        name: &spec.name,
        port: spec.port,
    };
    let target = reference.target(at, namespace, faults);
    let filters = own_filters(at, spec.filters.as_deref().unwrap_or_default(), faults);
    Some(Backend {
        weight: weight(at, spec.weight.unwrap_or(1), faults)?,
        target: target?,
        filters,
    })
}

fn weight(at: &str, weight: i32, faults: &mut Faults) -> Option<u32> {
    match u32::try_from(weight) {
        Ok(value) if weight <= MAX_WEIGHT => Some(value),
        _ => {
            faults.value(
                format!("{at}.weight"),
                format!("{weight} is not a weight: 0 to {MAX_WEIGHT}"),
            );
            None
        }
    }
}

/// Filters of one backend: only headers are changed there.
fn own_filters(at: &str, filters: &[SpecBackendFilter], faults: &mut Faults) -> Vec<Filter> {
    let at = format!("{at}.filters");
    // The two generated types are the same schema.
    let same: Result<Vec<SpecFilter>, _> =
        serde_json::to_value(filters).and_then(serde_json::from_value);
    let filters = match same {
        Ok(filters) => filters,
        Err(error) => {
            faults.value(at, error.to_string());
            return Vec::new();
        }
    };
    faults.check(at.clone(), limits::filters(&at, &filters));
    filters::of_backend(&at, &filters, faults)
}

/// A reference to a backend as the spec writes it, in a rule or in a mirror.
pub struct Reference<'a> {
    /// API group; default the core group.
    pub group: Option<&'a str>,
    /// Kind; default `Service`.
    pub kind: Option<&'a str>,
    /// Namespace; default the route's.
    pub namespace: Option<&'a str>,
    /// Name.
    pub name: &'a str,
    /// Port.
    pub port: Option<i32>,
}

impl Reference<'_> {
    /// The target with its defaults. Whether it exists and may be used is the host's to say.
    pub fn target(&self, at: &str, namespace: &str, faults: &mut Faults) -> Option<BackendTarget> {
        let object = ObjectRef::new(
            self.group.unwrap_or_default(),
            self.kind.unwrap_or("Service"),
            self.namespace.unwrap_or(namespace),
            self.name,
        );
        if self.name.is_empty() {
            faults.value(format!("{at}.name"), "must not be empty");
            return None;
        }
        let port = match self.port.map(port).transpose() {
            Ok(port) => port,
            Err(message) => {
                faults.value(format!("{at}.port"), message);
                return None;
            }
        };
        if object.is("", "Service") && port.is_none() {
            faults.value(format!("{at}.port"), "is needed for a Service");
            return None;
        }
        Some(BackendTarget { object, port })
    }
}
