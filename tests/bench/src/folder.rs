//! Folders of manifests: a Gateway and many routes, of which some have a file of their own.
//!
//! Every route sets a response header to a mark of its own, always of the same length, so that the
//! mark shows in Envoy's resources which state of which route they hold, and so that a bare loop can
//! make the same change by replacing bytes.

use crate::seen::Seen;
use crate::wire::VIRTUAL_HOST;
use anyhow::Context as _;
use chiton_tests::{module, paths};
use memchr::memmem;
use std::fmt::Write as _;
use std::path::PathBuf;
use tempfile::TempDir;

/// Routes that have a file of their own: those that a measure changes.
pub const OWN: usize = 100;

/// Routes, or policies, in each of the other files.
const IN_A_FILE: usize = 100;

/// Backends that routes share, unless they are Services.
const BACKENDS: usize = 10;

/// Where all backends are: no loopback address, since Envoy Gateway refuses those. Only the measure of
/// peers sends requests, in a network of its own.
pub const BACKEND: &str = "10.123.0.1";

/// Their port.
pub const BACKEND_PORT: u16 = 3000;

/// Whose kinds of backends and class of Gateways there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// This project's.
    Chiton,
    /// Envoy Gateway's.
    EnvoyGateway,
}

/// How routes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each has a hostname of its own.
    Hostnames,
    /// All have one hostname, and each a path of its own.
    Paths,
}

/// What a folder holds.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many routes.
    pub routes: usize,
    /// How they differ.
    pub shape: Shape,
    /// Services that the routes share, each with an `EndpointSlice` in a file of its own. 0: the
    /// routes share a few `Backend`s.
    pub services: usize,
    /// Whether each route has a policy `hello`, whose module is in a file of its own.
    pub policies: bool,
    /// For whom it is.
    pub dialect: Dialect,
}

impl Plan {
    /// Routes alone.
    pub const fn routes(routes: usize, shape: Shape) -> Self {
        Self {
            routes,
            shape,
            services: 0,
            policies: false,
            dialect: Dialect::Chiton,
        }
    }
}

/// A folder. It is removed with this value.
#[derive(Debug)]
pub struct Folder {
    dir: TempDir,
    plan: Plan,
    port: u16,
}

/// A file that is written and not yet in its place.
#[derive(Debug)]
pub struct Prepared {
    from: PathBuf,
    to: PathBuf,
}

impl Prepared {
    /// Puts it in its place by a rename, as a careful tool does.
    pub fn commit(self) -> anyhow::Result<()> {
        std::fs::rename(&self.from, &self.to)
            .with_context(|| format!("writing {}", self.to.display()))
    }
}

impl Folder {
    /// Writes a folder.
    pub fn write(plan: Plan) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("chiton-bench-").tempdir()?;
        std::fs::create_dir(dir.path().join("manifests"))?;
        let port = crate::relay::free_port()?;
        let folder = Self { dir, plan, port };
        folder.put("base.yaml", &base(plan.dialect, port))?;
        for route in 0..plan.routes.min(OWN) {
            folder.route(route, route)?.commit()?;
        }
        folder.chunks("routes", OWN, |route| route_text(plan, route, route))?;
        for service in 0..plan.services {
            folder.slice(service, 0)?.commit()?;
        }
        if plan.services > 0 {
            let text: String = (0..plan.services).map(service_text).collect();
            folder.put("services.yaml", &text)?;
        }
        if plan.policies {
            folder.chunks("policies", 0, policy_text)?;
            folder.module(1)?.commit()?;
        }
        Ok(folder)
    }

    /// What it holds.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// The port of the Gateway.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder to serve.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("manifests")
    }

    /// Beside the folder that is served: where a host may have its data.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(self.path())? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    }

    /// A route with a file of its own, in another state.
    pub fn route(&self, route: usize, revision: usize) -> anyhow::Result<Prepared> {
        let text = route_text(self.plan, route, revision);
        self.prepare(&format!("route-{route:06}.yaml"), &text)
    }

    /// The slice of a Service, in another state.
    pub fn slice(&self, service: usize, revision: usize) -> anyhow::Result<Prepared> {
        let text = slice_text(service, revision);
        self.prepare(&format!("slice-{service:06}.yaml"), &text)
    }

    /// The module `hello`, in one of its two versions.
    pub fn module(&self, version: u8) -> anyhow::Result<Prepared> {
        let guest = if version == 1 { "hello" } else { "hello-v2" };
        let component = std::fs::read(paths::guest(guest)?)?;
        let text = module::config_map("hello", &format!("{version}.0.0"), &component)?;
        self.prepare("module.yaml", &text)
    }

    /// Whether a proxy has acknowledged all of it.
    pub fn is_in(&self, seen: &Seen) -> bool {
        let mut hosts = seen.acked_of(VIRTUAL_HOST);
        match self.plan.shape {
            Shape::Hostnames => hosts.count() >= self.plan.routes,
            Shape::Paths => {
                let last = self.plan.routes.saturating_sub(1);
                hosts.any(|(_, body)| holds(body, &mark(last)))
            }
        }
    }

    fn prepare(&self, name: &str, text: &str) -> anyhow::Result<Prepared> {
        // Outside the folder that is watched, so that the rename is all that is seen.
        let from = self.beside(name);
        std::fs::write(&from, text)?;
        Ok(Prepared {
            from,
            to: self.path().join(name),
        })
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<()> {
        self.prepare(name, text)?.commit()
    }

    /// Writes the documents of all routes from one on, some in a file.
    fn chunks(
        &self,
        name: &str,
        from: usize,
        text: impl Fn(usize) -> String,
    ) -> anyhow::Result<()> {
        let routes: Vec<usize> = (from..self.plan.routes).collect();
        for (number, chunk) in routes.chunks(IN_A_FILE).enumerate() {
            let text: String = chunk.iter().map(|route| text(*route)).collect();
            self.put(&format!("{name}-{number:06}.yaml"), &text)?;
        }
        Ok(())
    }
}

/// The file of a host's data beside a folder: a name that no manifest has.
pub fn data(folder: &Folder, number: usize) -> PathBuf {
    folder.beside(&format!("data-{number}"))
}

/// Name of a route's object.
pub fn name(route: usize) -> String {
    format!("r{route:06}")
}

/// What stands in a route's resources in one of its states. Revisions below the number of routes are
/// those of the start, one a route.
pub fn mark(revision: usize) -> String {
    format!("rev-{revision:010}")
}

/// The address that a slice holds in one of its states; always of the same length. For Services and
/// revisions whose numbers are below 10,000 and 100.
pub fn address(service: usize, revision: usize) -> String {
    let (high, low) = (service / 100, service % 100);
    format!("127.{}.{}.{}", 100 + revision, 100 + high, 100 + low)
}

/// Whether bytes hold a mark.
pub fn holds(bytes: &[u8], mark: &str) -> bool {
    memmem::find(bytes, mark.as_bytes()).is_some()
}

/// The virtual host that each of the first routes is in, before any was changed.
pub fn places(seen: &Seen) -> Vec<String> {
    const START: &str = "rev-";
    let mut places = vec![String::new(); OWN];
    for (name, body) in seen.acked_of(VIRTUAL_HOST) {
        for at in memmem::find_iter(body, START) {
            let digits = body.get(at + START.len()..at + mark(0).len());
            let route = digits
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| digits.parse::<usize>().ok());
            if let Some(place) = route.and_then(|route| places.get_mut(route)) {
                place.clone_from(name);
            }
        }
    }
    places
}

/// The same bytes with another mark, of the same length, in the place of one.
pub fn replace(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(at) = memmem::find(&bytes, old.as_bytes())
        && let Some(place) = bytes.get_mut(at..at + new.len())
    {
        place.copy_from_slice(new.as_bytes());
    }
    bytes
}

fn base(dialect: Dialect, port: u16) -> String {
    let mut text = class(dialect);
    // Writing into a String cannot fail.
    let _ = write!(
        text,
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: bench}}
spec:
  gatewayClassName: bench
  listeners:
    - {{name: http, protocol: HTTP, port: {port}}}
"
    );
    for backend in 0..BACKENDS {
        let endpoint = match dialect {
            Dialect::Chiton => format!("host: {BACKEND}, port: {BACKEND_PORT}"),
            Dialect::EnvoyGateway => {
                format!("ip: {{address: {BACKEND}, port: {BACKEND_PORT}}}")
            }
        };
        let _ = write!(
            text,
            "---
apiVersion: {}/v1alpha1
kind: Backend
metadata: {{name: be-{backend}}}
spec: {{endpoints: [{{{endpoint}}}]}}
",
            group(dialect)
        );
    }
    text
}

/// The API group of the dialect's own kinds.
fn group(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chiton => "chiton.dev",
        Dialect::EnvoyGateway => "gateway.envoyproxy.io",
    }
}

/// The class of the Gateway. Envoy Gateway's says which Envoy to run, and not to write an access log
/// through its own output, which would be charged to it.
fn class(dialect: Dialect) -> String {
    let (controller, parameters) = match dialect {
        Dialect::Chiton => ("chiton.dev/gateway-controller", ""),
        Dialect::EnvoyGateway => (
            "gateway.envoyproxy.io/gatewayclass-controller",
            "
  parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: bench, namespace: default}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: bench, namespace: default}
spec:
  provider: {type: Host, host: {envoyVersion: \"1.40.0\"}}
  telemetry: {accessLog: {disable: true}}",
        ),
    };
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: bench}}
spec:
  controllerName: {controller}{parameters}
"
    )
}

/// About 0.8 kB, in the block style that people write.
fn route_text(plan: Plan, route: usize, revision: usize) -> String {
    let (host, path) = match plan.shape {
        Shape::Hostnames => (format!("{}.bench.test", name(route)), "/".to_owned()),
        Shape::Paths => ("bench.test".to_owned(), format!("/{}", name(route))),
    };
    let backend = match plan.services {
        0 => format!(
            "group: {}\n          kind: Backend\n          name: be-{}",
            group(plan.dialect),
            route % BACKENDS
        ),
        services => format!("name: be-{}\n          port: 80", route % services),
    };
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {}
spec:
  parentRefs:
    - name: bench
  hostnames:
    - {host}
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: {path}
      filters:
        - type: ResponseHeaderModifier
          responseHeaderModifier:
            set:
              - name: x-rev
                value: {}
      backendRefs:
        - {backend}
",
        name(route),
        mark(revision)
    )
}

fn service_text(service: usize) -> String {
    format!(
        "---
apiVersion: v1
kind: Service
metadata: {{name: be-{service}}}
spec: {{ports: [{{name: http, port: 80, protocol: TCP, targetPort: 3000}}]}}
"
    )
}

fn slice_text(service: usize, revision: usize) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: be-{service}-0, labels: {{kubernetes.io/service-name: be-{service}}}}}
addressType: IPv4
ports: [{{name: http, port: 3000, protocol: TCP}}]
endpoints: [{{addresses: [{}], conditions: {{ready: true}}}}]
",
        address(service, revision)
    )
}

fn policy_text(route: usize) -> String {
    let name = name(route);
    format!(
        "---
apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec:
  type: hello
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]
  default: {{text: world}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_mark_keeps_the_length() {
        let body = format!("..{}..{}..", mark(7), mark(70));
        let changed = replace(body.as_bytes(), &mark(7), &mark(1_000_007));
        assert_eq!(changed.len(), body.len());
        assert!(holds(&changed, &mark(1_000_007)) && holds(&changed, &mark(70)));
        assert!(!holds(&changed, &mark(7)));
    }

    #[test]
    fn addresses_are_all_different_and_of_one_length() {
        let all: std::collections::BTreeSet<String> = (0..1000)
            .flat_map(|service| (0..3).map(move |revision| address(service, revision)))
            .collect();
        assert_eq!(all.len(), 3000);
        assert!(all.iter().all(|address| address.len() == 15));
    }
}
