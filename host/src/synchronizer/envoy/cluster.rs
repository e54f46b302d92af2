//! Clusters and their endpoints: what backends meet.
//!
//! - Requests go to the endpoint with fewer requests of two that are drawn (least request): as even
//!   as round robin where all are alike, and better where one is slow.
//! - Circuit breakers are so high that they never decide: they would turn a burst into 503s without
//!   an object that asked for it.
//! - A connection attempt has 5 s. Names are looked up again when their TTL is over.

use super::listener::{BUFFER_LIMIT, address, socket_address};
use super::pb::envoy::config::cluster::v3 as cluster;
use super::pb::envoy::config::core::v3 as core;
use super::pb::envoy::config::endpoint::v3 as endpoint;
use super::pb::envoy::extensions::clusters::common::dns::v3::DnsLookupFamily;
use super::pb::envoy::extensions::clusters::dns::v3::DnsCluster;
use super::pb::envoy::extensions::upstreams::http::v3 as http;
use super::wire::{ads, any, number, resource, seconds};
use crate::synchronizer::model::{Cluster, ClusterEndpoints, EndpointSet};
use chiton_xds::{Resource, ResourceType};
use cluster::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use http::http_protocol_options as options;
use prost::Message;

/// A cluster that never exists: what should go to a backend that could not be resolved is sent here
/// and answered with 500.
pub const UNRESOLVED_CLUSTER: &str = "chiton.unresolved";

/// Above all that a proxy can hold.
const NO_LIMIT: u32 = 10_000_000;

/// The cluster.
#[must_use]
pub fn cluster(model: &Cluster) -> Resource {
    let message = cluster::Cluster {
        name: model.name.clone(),
        connect_timeout: Some(seconds(5)),
        per_connection_buffer_limit_bytes: Some(number(BUFFER_LIMIT)),
        lb_policy: cluster::cluster::LbPolicy::LeastRequest.into(),
        circuit_breakers: Some(cluster::CircuitBreakers {
            thresholds: vec![cluster::circuit_breakers::Thresholds {
                max_connections: Some(number(NO_LIMIT)),
                max_pending_requests: Some(number(NO_LIMIT)),
                max_requests: Some(number(NO_LIMIT)),
                ..Default::default()
            }],
            ..Default::default()
        }),
        // One entry, so its order is no question.
        typed_extension_protocol_options: [(
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned(),
            any(&protocol(model.h2c)),
        )]
        .into(),
        ..discovery(model)
    };
    resource(ResourceType::Cluster, &model.name, message.encode_to_vec())
}

/// The endpoints of a discovered cluster. None is a set too: requests get 503.
#[must_use]
pub fn endpoints(set: &EndpointSet) -> Resource {
    let addresses = set.endpoints.iter().map(|(ip, port)| address(*ip, *port));
    let message = assignment(&set.cluster, addresses.collect());
    resource(
        ResourceType::Endpoints,
        &set.cluster,
        message.encode_to_vec(),
    )
}

fn discovery(model: &Cluster) -> cluster::Cluster {
    let mut found = cluster::Cluster::default();
    match &model.endpoints {
        ClusterEndpoints::Discovered => {
            found.cluster_discovery_type =
                Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
            found.eds_cluster_config = Some(EdsClusterConfig {
                eds_config: Some(ads()),
                service_name: String::new(),
            });
        }
        ClusterEndpoints::Static(addresses) => {
            found.cluster_discovery_type =
                Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into()));
            let addresses = addresses.iter().map(|(ip, port)| address(*ip, *port));
            found.load_assignment = Some(assignment(&model.name, addresses.collect()));
        }
        ClusterEndpoints::Dns(names) => {
            found.cluster_discovery_type = Some(ClusterDiscoveryType::ClusterType(dns()));
            let addresses = names
                .iter()
                .map(|(name, port)| socket_address(name.clone(), *port));
            found.load_assignment = Some(assignment(&model.name, addresses.collect()));
        }
    }
    found
}

/// Strict DNS: every address that a name has is an endpoint.
fn dns() -> cluster::cluster::CustomClusterType {
    cluster::cluster::CustomClusterType {
        name: "envoy.clusters.dns".into(),
        typed_config: Some(any(&DnsCluster {
            respect_dns_ttl: true,
            dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
            ..Default::default()
        })),
    }
}

fn protocol(h2c: bool) -> http::HttpProtocolOptions {
    let config = if h2c {
        options::explicit_http_config::ProtocolConfig::Http2ProtocolOptions(
            core::Http2ProtocolOptions::default(),
        )
    } else {
        options::explicit_http_config::ProtocolConfig::HttpProtocolOptions(
            core::Http1ProtocolOptions::default(),
        )
    };
    http::HttpProtocolOptions {
        upstream_protocol_options: Some(options::UpstreamProtocolOptions::ExplicitHttpConfig(
            options::ExplicitHttpConfig {
                protocol_config: Some(config),
            },
        )),
        ..Default::default()
    }
}

fn assignment(name: &str, addresses: Vec<core::Address>) -> endpoint::ClusterLoadAssignment {
    let endpoints: Vec<_> = addresses
        .into_iter()
        .map(|address| endpoint::LbEndpoint {
            host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(
                endpoint::Endpoint {
                    address: Some(address),
                    ..Default::default()
                },
            )),
            ..Default::default()
        })
        .collect();
    let localities = if endpoints.is_empty() {
        Vec::new()
    } else {
        vec![endpoint::LocalityLbEndpoints {
            lb_endpoints: endpoints,
            ..Default::default()
        }]
    };
    endpoint::ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: localities,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn read(endpoints: ClusterEndpoints) -> cluster::Cluster {
        let encoded = cluster(&Cluster {
            name: "c".into(),
            endpoints,
            h2c: true,
        });
        cluster::Cluster::decode(encoded.body).expect("a cluster")
    }

    #[test]
    fn endpoints_come_from_where_the_cluster_says() {
        let discovered = read(ClusterEndpoints::Discovered);
        assert!(discovered.eds_cluster_config.is_some());
        assert!(discovered.load_assignment.is_none());
        let ip = "127.0.0.1".parse().expect("an address");
        let fixed = read(ClusterEndpoints::Static(vec![(ip, 80), (ip, 81)]));
        let found = fixed.load_assignment.expect("endpoints");
        assert_eq!(found.endpoints[0].lb_endpoints.len(), 2);
        let named = read(ClusterEndpoints::Dns(vec![("a.example".into(), 80)]));
        assert!(matches!(
            named.cluster_discovery_type,
            Some(ClusterDiscoveryType::ClusterType(_))
        ));
    }

    #[test]
    fn no_endpoints_are_an_empty_set() {
        let encoded = endpoints(&EndpointSet {
            cluster: "c".into(),
            endpoints: Vec::new(),
        });
        let found = endpoint::ClusterLoadAssignment::decode(encoded.body).expect("a set");
        assert_eq!(found.cluster_name, "c");
        assert!(found.endpoints.is_empty());
    }
}
