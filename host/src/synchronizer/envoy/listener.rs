//! Listeners: what clients meet.
//!
//! Beyond the Gateway API, after Envoy's guide for edge proxies:
//! - **Paths** are normalized (RFC 3986: `/a/../b` is `/b`) before routes and policies see them, and
//!   a path with an escaped slash (`%2F`, `%5C`) is answered with a redirect to the unescaped one:
//!   else `/public/..%2Fadmin` would be public here and private behind. Double slashes stay.
//! - **Addresses** are those of the connection: it is appended to `x-forwarded-for`, and no hop
//!   before is trusted, nor is any address internal, so that clients cannot set `x-envoy-…` headers
//!   that change time limits and retries. (For a client on the loopback interface Envoy writes the
//!   machine's own address.)
//! - **Host**: a port is ignored when virtual hosts are chosen and stays in the header; a dot at the
//!   end goes. `Server` is the backend's.
//! - **Time**: request headers must arrive in 10 s; a stream silent for 5 minutes and a connection
//!   idle for an hour end. Requests as a whole have no limit unless their rule has one.
//! - **Memory**: 32 KiB of buffer a connection, 100 streams, 64 KiB a stream's and 1 MiB a
//!   connection's HTTP/2 window.
//! - **`WebSocket`** upgrades are let through on every route.
//! - Header names with underscores are let through: routes may match them.

use super::filters::http_filters;
use super::pb::envoy::config::accesslog::v3 as accesslog;
use super::pb::envoy::config::core::v3 as core;
use super::pb::envoy::config::listener::v3 as listener;
use super::pb::envoy::extensions::access_loggers::stream::v3::StdoutAccessLog;
use super::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use super::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use super::tls::transport_socket;
use super::wire::{ads, any, boolean, number, resource, seconds};
use crate::synchronizer::model::{Listener, ListenerKind, TlsChain};
use chiton_xds::{Resource, ResourceType};
use hcm::http_connection_manager as manager;
use prost::Message;
use std::net::IpAddr;

/// Bytes that a connection may buffer, on either side.
pub const BUFFER_LIMIT: u32 = 32 * 1024;

/// The listener.
#[must_use]
pub fn listener(model: &Listener) -> Resource {
    let (chains, inspectors) = match &model.kind {
        ListenerKind::Http { route_config } => (vec![http_chain(model, route_config)], Vec::new()),
        ListenerKind::Https(chains) => (
            chains.iter().map(|chain| tls_chain(model, chain)).collect(),
            vec![tls_inspector()],
        ),
    };
    let message = listener::Listener {
        name: model.name.clone(),
        address: Some(address(model.address, model.port)),
        filter_chains: chains,
        listener_filters: inspectors,
        per_connection_buffer_limit_bytes: Some(number(BUFFER_LIMIT)),
        enable_reuse_port: Some(boolean(true)),
        traffic_direction: core::TrafficDirection::Inbound.into(),
        ..Default::default()
    };
    resource(ResourceType::Listener, &model.name, message.encode_to_vec())
}

/// A TCP address.
pub fn address(ip: IpAddr, port: u16) -> core::Address {
    socket_address(ip.to_string(), port)
}

/// A TCP address by IP address or name.
pub fn socket_address(address: String, port: u16) -> core::Address {
    core::Address {
        address: Some(core::address::Address::SocketAddress(core::SocketAddress {
            address,
            port_specifier: Some(core::socket_address::PortSpecifier::PortValue(port.into())),
            ..Default::default()
        })),
    }
}

fn http_chain(model: &Listener, route_config: &str) -> listener::FilterChain {
    listener::FilterChain {
        name: route_config.to_owned(),
        filters: vec![connection_manager(model, route_config)],
        ..Default::default()
    }
}

fn tls_chain(model: &Listener, chain: &TlsChain) -> listener::FilterChain {
    listener::FilterChain {
        filter_chain_match: Some(listener::FilterChainMatch {
            server_names: chain.server_names.clone(),
            transport_protocol: "tls".into(),
            ..Default::default()
        }),
        transport_socket: Some(transport_socket(chain)),
        ..http_chain(model, &chain.route_config)
    }
}

fn tls_inspector() -> listener::ListenerFilter {
    listener::ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".into(),
        config_type: Some(listener::listener_filter::ConfigType::TypedConfig(any(
            &TlsInspector::default(),
        ))),
        ..Default::default()
    }
}

fn connection_manager(model: &Listener, route_config: &str) -> listener::Filter {
    let manager = hcm::HttpConnectionManager {
        codec_type: manager::CodecType::Auto.into(),
        stat_prefix: route_config.to_owned(),
        route_specifier: Some(manager::RouteSpecifier::Rds(hcm::Rds {
            config_source: Some(ads()),
            route_config_name: route_config.to_owned(),
        })),
        http_filters: http_filters(route_config),
        normalize_path: Some(boolean(true)),
        merge_slashes: false,
        path_with_escaped_slashes_action:
            manager::PathWithEscapedSlashesAction::UnescapeAndRedirect.into(),
        use_remote_address: Some(boolean(true)),
        internal_address_config: Some(nobody_internal()),
        strip_trailing_host_dot: true,
        server_header_transformation: manager::ServerHeaderTransformation::PassThrough.into(),
        common_http_protocol_options: Some(core::HttpProtocolOptions {
            idle_timeout: Some(seconds(3_600)),
            ..Default::default()
        }),
        http2_protocol_options: Some(core::Http2ProtocolOptions {
            max_concurrent_streams: Some(number(100)),
            initial_stream_window_size: Some(number(64 * 1024)),
            initial_connection_window_size: Some(number(1024 * 1024)),
            ..Default::default()
        }),
        stream_idle_timeout: Some(seconds(300)),
        request_headers_timeout: Some(seconds(10)),
        upgrade_configs: vec![manager::UpgradeConfig {
            upgrade_type: "websocket".into(),
            ..Default::default()
        }],
        access_log: if model.access_log {
            vec![access_log()]
        } else {
            Vec::new()
        },
        ..Default::default()
    };
    listener::Filter {
        name: "envoy.filters.network.http_connection_manager".into(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(any(&manager))),
    }
}

/// Which clients may set Envoy's own headers: none. No range at all would mean private networks, so
/// this is one that no connection comes from.
fn nobody_internal() -> manager::InternalAddressConfig {
    manager::InternalAddressConfig {
        unix_sockets: false,
        cidr_ranges: vec![core::CidrRange {
            address_prefix: "255.255.255.255".into(),
            prefix_len: Some(number(32)),
        }],
    }
}

fn access_log() -> accesslog::AccessLog {
    accesslog::AccessLog {
        name: "envoy.access_loggers.stdout".into(),
        config_type: Some(accesslog::access_log::ConfigType::TypedConfig(any(
            &StdoutAccessLog::default(),
        ))),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn read(kind: ListenerKind) -> listener::Listener {
        let encoded = listener(&Listener {
            name: "l".into(),
            address: "127.0.0.1".parse().expect("an address"),
            port: 8080,
            kind,
            access_log: true,
        });
        assert_eq!(encoded.name.name, "l");
        listener::Listener::decode(encoded.body).expect("a listener")
    }

    #[test]
    fn http_has_one_chain_and_no_tls() {
        let found = read(ListenerKind::Http {
            route_config: "http-8080".into(),
        });
        assert_eq!(found.filter_chains.len(), 1);
        assert_eq!(found.filter_chains[0].transport_socket, None);
        assert!(found.listener_filters.is_empty());
    }

    #[test]
    fn https_has_a_chain_for_each_name() {
        let chain = |name: &str, server_names: &[&str]| TlsChain {
            route_config: name.into(),
            server_names: server_names.iter().map(ToString::to_string).collect(),
            secrets: vec!["secret_a_b".into()],
        };
        let found = read(ListenerKind::Https(vec![
            chain("a", &["a.example"]),
            chain("b", &[]),
        ]));
        assert_eq!(found.listener_filters.len(), 1);
        let names: Vec<_> = found
            .filter_chains
            .iter()
            .map(|chain| {
                chain
                    .filter_chain_match
                    .clone()
                    .unwrap_or_default()
                    .server_names
            })
            .collect();
        assert_eq!(names, [vec!["a.example".to_owned()], vec![]]);
        assert!(
            found
                .filter_chains
                .iter()
                .all(|c| c.transport_socket.is_some())
        );
    }
}
