//! What a proxy does with a request, read from the resources that it has.

use super::host::Proxies;
use super::serving::{Answer, Request, Treatment};
use chiton_xds::{ResourceName, ResourceType};
use envoy_types::pb::envoy::config::common::mutation_rules::v3::header_mutation::Action as Mutation;
use envoy_types::pb::envoy::config::core::v3::{address::Address, socket_address::PortSpecifier};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3::ApiKeyAuthPerRoute;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::HeaderMutationPerRoute;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Filters = HashMap<String, Any>;

/// All route configurations of a proxy with their virtual hosts.
pub struct Envoy {
    route_configs: BTreeMap<String, (RouteConfiguration, BTreeMap<String, VirtualHost>)>,
    endpoints: BTreeMap<String, BTreeSet<String>>,
    clusters: BTreeSet<String>,
    listeners: BTreeSet<String>,
}

impl Envoy {
    pub fn with(proxies: &Proxies) -> Self {
        let mut envoy = Self {
            route_configs: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            clusters: BTreeSet::new(),
            listeners: BTreeSet::new(),
        };
        for (ResourceName { kind, name }, resource) in proxies {
            let body = resource.body.clone();
            match kind {
                ResourceType::RouteConfiguration => {
                    let config = RouteConfiguration::decode(body).expect("a message");
                    envoy
                        .route_configs
                        .insert(name.clone(), (config, BTreeMap::new()));
                }
                ResourceType::Endpoints => {
                    let set = ClusterLoadAssignment::decode(body).expect("a message");
                    envoy.endpoints.insert(name.clone(), addresses(&set));
                }
                ResourceType::Cluster => drop(envoy.clusters.insert(name.clone())),
                ResourceType::Listener => drop(envoy.listeners.insert(name.clone())),
                _ => {}
            }
        }
        for (ResourceName { kind, name }, resource) in proxies {
            if *kind == ResourceType::VirtualHost {
                let (config, hostname) = name.split_once('/').expect("a virtual host's name");
                let host = VirtualHost::decode(resource.body.clone()).expect("a message");
                assert_eq!(host.domains, [hostname]);
                let (_, hosts) = envoy
                    .route_configs
                    .get_mut(config)
                    .expect("its configuration");
                hosts.insert(hostname.to_owned(), host);
            }
        }
        envoy
    }

    /// What it does with a request.
    pub fn answer(&self, request: &Request) -> Answer {
        let name = format!("http-{}", request.port);
        let Some((config, hosts)) = self.route_configs.get(&name) else {
            assert!(
                !self.listeners.contains(&name),
                "{name} has nothing to serve"
            );
            return Answer::NotFound;
        };
        assert!(self.listeners.contains(&name), "nobody listens for {name}");
        let Some(host) = choose(hosts, request.host) else {
            return Answer::NotFound;
        };
        let Some(route) = host.routes.iter().find(|it| takes(it, request.path)) else {
            return Answer::NotFound;
        };
        let levels = [
            &route.typed_per_filter_config,
            &host.typed_per_filter_config,
            &config.typed_per_filter_config,
        ];
        let treatment = treatment(levels);
        match route.action.as_ref().expect("an action") {
            Action::DirectResponse(answer) => Answer::Status(answer.status, treatment),
            Action::Route(action) => {
                let cluster = match action.cluster_specifier.as_ref().expect("a cluster") {
                    ClusterSpecifier::Cluster(name) => name.clone(),
                    ClusterSpecifier::WeightedClusters(all) => all.clusters[0].name.clone(),
                    other => panic!("{other:?}"),
                };
                assert!(self.clusters.contains(&cluster), "{cluster} is not there");
                let endpoints = self.endpoints.get(&cluster).expect("its endpoints").clone();
                Answer::Forwarded(cluster, endpoints, treatment)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Clusters without a user are a leak.
    pub fn unused_clusters(&self) -> BTreeSet<String> {
        let mut unused = self.clusters.clone();
        for (_, hosts) in self.route_configs.values() {
            for route in hosts.values().flat_map(|host| &host.routes) {
                if let Some(Action::Route(action)) = &route.action {
                    match &action.cluster_specifier {
                        Some(ClusterSpecifier::Cluster(name)) => drop(unused.remove(name)),
                        Some(ClusterSpecifier::WeightedClusters(all)) => {
                            for cluster in &all.clusters {
                                unused.remove(&cluster.name);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        unused
    }
}

/// As Envoy chooses: the exact domain, the longest wildcard, then `*`.
fn choose<'a>(hosts: &'a BTreeMap<String, VirtualHost>, host: &str) -> Option<&'a VirtualHost> {
    if let Some(exact) = hosts.get(host) {
        return Some(exact);
    }
    hosts
        .iter()
        .filter(|(domain, _)| {
            domain
                .strip_prefix('*')
                .is_some_and(|suffix| host.ends_with(suffix) && host.len() > suffix.len())
        })
        .max_by_key(|(domain, _)| domain.len())
        .map(|(_, host)| host)
}

fn takes(route: &Route, path: &str) -> bool {
    let matched = route.r#match.as_ref().expect("a match");
    assert!(matched.headers.is_empty(), "no rule asks for headers");
    match matched.path_specifier.as_ref().expect("a path") {
        PathSpecifier::Prefix(prefix) => path.starts_with(prefix.as_str()),
        PathSpecifier::PathSeparatedPrefix(prefix) => {
            path == prefix || path.starts_with(&format!("{prefix}/"))
        }
        other => panic!("{other:?}"),
    }
}

/// What filters do, as they are switched on at a route, its virtual host and its configuration.
fn treatment(levels: [&Filters; 3]) -> Treatment {
    let nearest = |name: &str| levels.into_iter().find_map(|level| level.get(name));
    let own = levels[0].get("chiton.request-headers.route");
    let wide = nearest("chiton.request-headers.wide");
    let headers: Vec<String> = [own, wide]
        .into_iter()
        .flatten()
        .filter_map(header)
        .collect();
    assert!(
        headers.len() <= 1,
        "a replaced policy still acts: {headers:?}"
    );
    let keys = nearest("envoy.filters.http.api_key_auth").map(|any| {
        let keys: ApiKeyAuthPerRoute = decode(any).expect("keys");
        keys.credentials.into_iter().map(|it| it.key).collect()
    });
    Treatment {
        header: headers.into_iter().next(),
        keys,
    }
}

/// The value that a header filter sets, unless it is switched off.
fn header(any: &Any) -> Option<String> {
    let settings: HeaderMutationPerRoute = decode(any)?;
    let mutations = settings.mutations.expect("mutations").request_mutations;
    assert_eq!(mutations.len(), 1);
    match mutations[0].action.as_ref().expect("an action") {
        Mutation::Append(option) => {
            let header = option.header.as_ref().expect("a header");
            assert_eq!(header.key, "x-policy");
            Some(header.value.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn decode<M: Message + prost::Name + Default>(any: &Any) -> Option<M> {
    (any.type_url == M::type_url()).then(|| M::decode(any.value.as_slice()).expect("a message"))
}

fn addresses(set: &ClusterLoadAssignment) -> BTreeSet<String> {
    let all = set
        .endpoints
        .iter()
        .flat_map(|locality| &locality.lb_endpoints);
    all.filter_map(|endpoint| match endpoint.host_identifier.as_ref()? {
        HostIdentifier::Endpoint(endpoint) => match endpoint.address.as_ref()?.address.as_ref()? {
            Address::SocketAddress(socket) => match socket.port_specifier.as_ref()? {
                PortSpecifier::PortValue(port) => Some(format!("{}:{port}", socket.address)),
                PortSpecifier::NamedPort(_) => None,
            },
            _ => None,
        },
        HostIdentifier::EndpointName(_) => None,
    })
    .collect()
}
