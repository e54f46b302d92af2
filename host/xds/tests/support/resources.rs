//! Resources that tests give to proxies.

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
    put_cluster(&eds_cluster(name, timeout_seconds))
}

/// A cluster that Envoy could use and gRPC cannot.
pub fn misfit_cluster(name: &str) -> Change {
    put_cluster(&Cluster {
        lb_policy: cluster::LbPolicy::Maglev as i32,
        ..eds_cluster(name, 1)
    })
}

fn put_cluster(cluster: &Cluster) -> Change {
    let name = cluster.name.clone();
    Change::Put(Resource::encode(ResourceType::Cluster, name, cluster))
}

fn eds_cluster(name: &str, timeout_seconds: i64) -> Cluster {
    Cluster {
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
    }
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
    put_cluster(&cluster)
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
