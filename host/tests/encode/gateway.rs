//! An Envoy with an xDS server beside it.

use crate::client::{Answer, get};
use chiton::synchronizer::{envoy, model};
use chiton_xds::{Change, Options, Programmed, Resource, ResourceName, Server};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

const GROUP: &str = "default";
/// Name of the plain route configuration of every test.
pub const RC: &str = "http-80";

/// A running Envoy. It ends when this is dropped.
pub struct Gateway {
    pub port: u16,
    server: Server,
    published: Vec<ResourceName>,
    folder: tempfile::TempDir,
    _envoy: Child,
}

impl Gateway {
    /// Serves virtual hosts of one HTTP listener, beside what `others` adds.
    pub async fn serve(hosts: &[model::VirtualHost], others: Vec<Resource>) -> Self {
        let port = free_port();
        let listener = model::Listener {
            name: RC.into(),
            address: "127.0.0.1".parse().expect("an address"),
            port,
            kind: model::ListenerKind::Http {
                route_config: RC.into(),
            },
            access_log: false,
        };
        let mut resources = vec![envoy::listener(&listener), envoy::inert_virtual_host(RC)];
        resources.extend(hosts.iter().map(envoy::virtual_host));
        resources.extend(others);
        with_default(
            &mut resources,
            envoy::route_config(&model::RouteConfig {
                name: RC.into(),
                effects: model::Effects::new(),
            }),
        );
        with_default(
            &mut resources,
            envoy::rate_limits(&model::RateLimits {
                name: envoy::rate_limit_name(RC),
                buckets: std::collections::BTreeMap::default(),
                wide: None,
            }),
        );
        Self::start(port, resources).await
    }

    /// Serves resources.
    pub async fn start(port: u16, resources: Vec<Resource>) -> Self {
        let xds = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let xds_port = xds.local_addr().expect("an address").port();
        let server = Server::new(Options::default());
        let serving = server.clone();
        tokio::spawn(async move {
            let listeners = vec![chiton_xds::Listener::Tcp(xds)];
            serving.serve(listeners, std::future::pending()).await
        });
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("envoy.yaml");
        std::fs::write(&path, bootstrap(xds_port)).expect("the bootstrap is written");
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        let child = Command::new(binary())
            .args([
                "--use-dynamic-base-id",
                "--concurrency",
                "1",
                "-l",
                "warning",
                "-c",
            ])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("Envoy starts: set ENVOY to its path");
        let mut gateway = Self {
            port,
            server,
            published: Vec::new(),
            folder,
            _envoy: child,
        };
        gateway.publish(resources).await;
        gateway
    }

    /// Publishes resources and waits until Envoy has acknowledged everything.
    pub async fn publish(&mut self, resources: Vec<Resource>) {
        for resource in &resources {
            if !self.published.contains(&resource.name) {
                self.published.push(resource.name.clone());
            }
        }
        let changes = resources.into_iter().map(Change::Put).collect();
        self.server.publish(GROUP, changes);
        self.server.set_ready(GROUP);
        for _ in 0..600 {
            match self.server.programmed(GROUP, &self.published) {
                Programmed::Acked => return,
                Programmed::Nacked { name, text } => panic!("{name} was refused: {text}"),
                Programmed::NoProxy | Programmed::Pending => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "not acknowledged: {:?}\n{:#?}\n{}",
            self.published,
            self.server.ledger().proxies(),
            self.log()
        );
    }

    /// What Envoy complained about.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Sends a request without headers of its own.
    pub async fn get(&self, host: &str, path: &str) -> Answer {
        get(self.port, host, path, &[]).await
    }

    /// Sends a request.
    pub async fn send(&self, host: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        get(self.port, host, path, headers).await
    }
}

fn with_default(resources: &mut Vec<Resource>, default: Resource) {
    if !resources
        .iter()
        .any(|resource| resource.name == default.name)
    {
        resources.push(default);
    }
}

/// A port that nobody has.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn binary() -> PathBuf {
    std::env::var_os("ENVOY").map_or_else(|| "envoy".into(), Into::into)
}

fn bootstrap(xds: u16) -> String {
    format!(
        r#"
node: {{ id: test, cluster: {GROUP} }}
layered_runtime:
  layers:
  - name: static
    static_layer: {{ re2.max_program_size.error_level: 100000 }}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services: [{{ envoy_grpc: {{ cluster_name: xds }} }}]
  cds_config: {{ ads: {{}}, resource_api_version: V3 }}
  lds_config: {{ ads: {{}}, resource_api_version: V3 }}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
    load_assignment:
      cluster_name: xds
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {xds} }} }} }}
"#
    )
}
