//! The file that Envoy starts from: where its configuration comes from, and limits.

use super::Error;
use serde_json::{Value, json};
use std::path::Path;

/// Name of the static cluster through which Envoy reaches the host.
const XDS_CLUSTER: &str = "chiton";

/// Largest RE2 program, in instructions. Envoy's own limit is 100, less than many an honest expression
/// needs. Reconcilers refuse what is larger than `chiton_ir::check::regex::MAX_PROGRAM_SIZE`, so this one
/// only has to be above that: it is never what decides.
const RE2_PROGRAM_SIZE: u32 = 32_768;

/// Most downstream connections. Without a limit Envoy warns, and a flood uses up its file descriptors.
const MAX_CONNECTIONS: u32 = 50_000;

/// The bootstrap for an Envoy that somebody else runs: delta ADS from `xds_address` (`HOST:PORT`, or
/// `unix:PATH`), as the node `id` of the fleet `cluster`. JSON, which is YAML too: names that look
/// like booleans are quoted.
pub fn bootstrap(xds_address: &str, cluster: &str, id: &str) -> Result<String, Error> {
    let admin = json!({"socket_address": {"address": "127.0.0.1", "port_value": 0}});
    let host = Server::parse(xds_address)?;
    Ok(text(&document(&host, &admin, cluster, id)))
}

/// The bootstrap of the managed Envoy, which speaks over sockets in the data folder.
pub(super) fn managed(xds_socket: &Path, admin_socket: &Path) -> String {
    // Owner only: the admin interface can stop Envoy.
    let admin = json!({"pipe": {"path": admin_socket, "mode": 0o600}});
    let host = Server {
        address: json!({"pipe": {"path": xds_socket}}),
        discovery: "STATIC",
    };
    text(&document(&host, &admin, "default", "default"))
}

/// Where the host listens.
struct Server {
    address: Value,
    discovery: &'static str,
}

impl Server {
    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::XdsAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(wrong());
            }
            return Ok(Self {
                address: json!({"pipe": {"path": path}}),
                discovery: "STATIC",
            });
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        if host.is_empty() || port == 0 || (host.contains(':') && !is_address) {
            return Err(wrong());
        }
        Ok(Self {
            address: json!({"socket_address": {"address": host, "port_value": port}}),
            discovery: if is_address { "STATIC" } else { "STRICT_DNS" },
        })
    }
}

fn text(document: &Value) -> String {
    format!("{document:#}\n")
}

fn document(host: &Server, admin: &Value, cluster: &str, id: &str) -> Value {
    json!({
        "node": {"id": id, "cluster": cluster},
        "admin": {"address": admin},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {
                    "cluster_name": XDS_CLUSTER,
                    // Envoy's own 30 s at most would leave it behind for as long after a restart of the host.
                    "retry_policy": {"retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"}},
                }}],
            },
            "cds_config": {"ads": {}, "resource_api_version": "V3"},
            "lds_config": {"ads": {}, "resource_api_version": "V3"},
        },
        "static_resources": {"clusters": [xds_cluster(host)]},
        "overload_manager": overload_manager(),
        "layered_runtime": {"layers": [{"name": "chiton", "static_layer": {
            "re2.max_program_size.error_level": RE2_PROGRAM_SIZE,
            "re2.max_program_size.warn_level": RE2_PROGRAM_SIZE,
        }}]},
    })
}

fn xds_cluster(host: &Server) -> Value {
    json!({
        "name": XDS_CLUSTER,
        "type": host.discovery,
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                // A host that vanished without closing its connections is noticed.
                "explicit_http_config": {"http2_protocol_options": {
                    "connection_keepalive": {"interval": "30s", "timeout": "5s"},
                }},
            },
        },
        "load_assignment": {
            "cluster_name": XDS_CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": host.address}}]}],
        },
    })
}

fn overload_manager() -> Value {
    json!({"resource_monitors": [{
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
            "max_active_downstream_connections": MAX_CONNECTIONS.to_string(),
        },
    }]})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn pointer(text: &str, pointer: &str) -> Value {
        let document: Value = serde_json::from_str(text).unwrap();
        document.pointer(pointer).cloned().unwrap_or_default()
    }

    const ENDPOINT: &str =
        "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address";
    const DISCOVERY: &str = "/static_resources/clusters/0/type";

    #[test]
    fn node_and_address_are_as_asked() {
        let text = bootstrap("127.0.0.1:18000", "a/b", "y").unwrap();
        assert_eq!(
            pointer(&text, "/node"),
            json!({"id": "y", "cluster": "a/b"})
        );
        let address = json!({"socket_address": {"address": "127.0.0.1", "port_value": 18000}});
        assert_eq!(pointer(&text, ENDPOINT), address);
        assert_eq!(pointer(&text, DISCOVERY), "STATIC");
    }

    #[test]
    fn names_ipv6_and_sockets_are_addresses_too() {
        let named = bootstrap("chiton.system:1", "c", "i").unwrap();
        assert_eq!(pointer(&named, DISCOVERY), "STRICT_DNS");
        let six = bootstrap("[::1]:1", "c", "i").unwrap();
        assert_eq!(pointer(&six, ENDPOINT)["socket_address"]["address"], "::1");
        let socket = bootstrap("unix:/a b", "c", "i").unwrap();
        assert_eq!(
            pointer(&socket, ENDPOINT),
            json!({"pipe": {"path": "/a b"}})
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in [
            "", "a", ":1", "a:", "a:0", "a:65536", "::1:1x", "a:b:1", "unix:",
        ] {
            assert!(bootstrap(wrong, "c", "i").is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_limit_of_expressions_is_above_what_reconcilers_accept() {
        assert!(u64::from(RE2_PROGRAM_SIZE) > 2 * chiton_ir::check::regex::MAX_PROGRAM_SIZE);
    }
}
