//! Short ways to write manifests: what is the same in all of them, once.

/// An HTTPRoute of the Gateway `gateway` with these rules.
#[must_use]
pub fn route(name: &str, rules: &str) -> String {
    route_with(name, "parentRefs: [{name: gateway}]", rules)
}

/// An HTTPRoute of the Gateway `gateway` for `/<name>` to a Backend.
#[must_use]
pub fn path_route(name: &str, backend: &str) -> String {
    let path = format!("/{name}");
    route(name, &rule(&prefix(&path), &to(backend)))
}

/// A [`path_route`] at a hostname.
#[must_use]
pub fn path_route_at(hostname: &str, name: &str, backend: &str) -> String {
    let spec = format!("parentRefs: [{{name: gateway}}]\n  hostnames: [{hostname}]");
    let path = format!("/{name}");
    route_with(name, &spec, &rule(&prefix(&path), &to(backend)))
}

/// An HTTPRoute with these lines of its spec, in YAML's flow style, and these rules.
#[must_use]
pub fn route_with(name: &str, spec: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  {spec}
  rules:
{rules}---
"
    )
}

/// A rule with one match (YAML's flow style) and these other fields.
#[must_use]
pub fn rule(matches: &str, fields: &str) -> String {
    format!("    - {{matches: [{matches}], {fields}}}\n")
}

/// A rule that forwards to Backend `a`, which sees the rule's name in the request header `x-rule`.
#[must_use]
pub fn named_rule(name: &str, matches: &str) -> String {
    rule(
        matches,
        &format!(
            "filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: \
             x-rule, value: {name}}}]}}}}], {}",
            to("a")
        ),
    )
}

/// A match of a prefix.
#[must_use]
pub fn prefix(path: &str) -> String {
    format!("{{path: {{type: PathPrefix, value: {path}}}}}")
}

/// `backendRefs` to one Backend.
#[must_use]
pub fn to(backend: &str) -> String {
    format!("backendRefs: [{}]", backend_ref(backend))
}

/// A reference to a Backend.
#[must_use]
pub fn backend_ref(name: &str) -> String {
    format!("{{group: chiton.dev, kind: Backend, name: {name}}}")
}

/// A Service with these ports.
#[must_use]
pub fn service(name: &str, ports: &str) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{ports}]}}
---
"
    )
}

/// A slice of a Service with one endpoint, 127.0.0.1, and these ports.
#[must_use]
pub fn slice(name: &str, service: &str, ready: bool, ports: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: IPv4
endpoints: [{{addresses: [127.0.0.1], conditions: {{ready: {ready}}}}}]
ports: [{ports}]
---
"
    )
}

/// A Policy of a type on one target, with its `default` or `override`; all in YAML's flow style.
#[must_use]
pub fn policy(name: &str, r#type: &str, target: &str, settings: &str) -> String {
    format!(
        "apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec:
  type: {type}
  targetRefs: [{target}]
  {settings}
---
"
    )
}
