//! A minimal server: one virtual host on a port, changed by each line that is typed.
//!
//! `cargo run -p chiton-xds --example minimal`, and beside it an Envoy with `node: {id: e, cluster:
//! demo}` and an ADS stream (delta or not) to 127.0.0.1:18000, as `tests/support/bootstrap.yaml`.
//! Then `curl localhost:10000`.

use chiton_xds::{Change, Listener, Options, Resource, ResourceName, ResourceType, Server};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as http;
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};
use tokio::io::{AsyncBufReadExt, BufReader};

const GROUP: &str = "demo";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(Options::default());
    server.publish(GROUP, vec![listener(), route_config(), answers("hello")]);
    // What is published is complete: from now on clients are told.
    server.set_ready(GROUP);

    let tcp = tokio::net::TcpListener::bind("127.0.0.1:18000").await?;
    let serving = tokio::spawn({
        let server = server.clone();
        async move {
            server
                .serve(vec![Listener::Tcp(tcp)], std::future::pending())
                .await
        }
    });

    println!("type what to answer; an empty line shows what proxies have");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line.is_empty() {
            println!("{:#?}", server.ledger().proxies());
            continue;
        }
        // Costs what changed, not what is there.
        server.publish(GROUP, vec![answers(&line)]);
        let name = ResourceName::new(ResourceType::VirtualHost, "web/all");
        let mut changes = server.ledger().changes();
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), async {
            while server.programmed(GROUP, std::slice::from_ref(&name))
                == chiton_xds::Programmed::Pending
            {
                let _ = changes.changed().await;
            }
        });
        let _ = answer.await;
        println!("{:?}", server.programmed(GROUP, &[name]));
    }
    serving.abort();
    Ok(())
}

/// A listener whose routes come over RDS.
fn listener() -> Change {
    let manager = http::HttpConnectionManager {
        stat_prefix: "web".to_owned(),
        http_filters: vec![http::HttpFilter {
            name: "router".to_owned(),
            config_type: Some(http::http_filter::ConfigType::TypedConfig(any(
                &Router::default(),
            ))),
            ..Default::default()
        }],
        route_specifier: Some(http::http_connection_manager::RouteSpecifier::Rds(
            http::Rds {
                config_source: Some(ads()),
                route_config_name: "web".to_owned(),
            },
        )),
        ..Default::default()
    };
    let message = listener::Listener {
        name: "web".to_owned(),
        address: Some(core::Address {
            address: Some(core::address::Address::SocketAddress(core::SocketAddress {
                address: "127.0.0.1".to_owned(),
                port_specifier: Some(core::socket_address::PortSpecifier::PortValue(10_000)),
                ..Default::default()
            })),
        }),
        filter_chains: vec![listener::FilterChain {
            filters: vec![listener::Filter {
                name: "http".to_owned(),
                config_type: Some(listener::filter::ConfigType::TypedConfig(any(&manager))),
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    Change::Put(Resource::encode(ResourceType::Listener, "web", &message))
}

/// A route configuration whose virtual hosts come by themselves (VHDS). Clients that cannot do that
/// are given it with its virtual hosts in it.
fn route_config() -> Change {
    let message = route::RouteConfiguration {
        name: "web".to_owned(),
        vhds: Some(route::Vhds {
            config_source: Some(ads()),
        }),
        ..Default::default()
    };
    Change::Put(Resource::encode(
        ResourceType::RouteConfiguration,
        "web",
        &message,
    ))
}

/// The virtual host of all hostnames. Its name starts with that of its route configuration.
fn answers(text: &str) -> Change {
    let body = core::DataSource {
        specifier: Some(core::data_source::Specifier::InlineString(format!(
            "{text}\n"
        ))),
        ..Default::default()
    };
    let message = route::VirtualHost {
        name: "web/all".to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route::Route {
            r#match: Some(route::RouteMatch {
                path_specifier: Some(route::route_match::PathSpecifier::Prefix("/".to_owned())),
                ..Default::default()
            }),
            action: Some(route::route::Action::DirectResponse(
                route::DirectResponseAction {
                    status: 200,
                    body: Some(body),
                    ..Default::default()
                },
            )),
            ..Default::default()
        }],
        ..Default::default()
    };
    Change::Put(Resource::encode(
        ResourceType::VirtualHost,
        "web/all",
        &message,
    ))
}

/// From the stream that the question came on.
fn ads() -> core::ConfigSource {
    core::ConfigSource {
        resource_api_version: core::ApiVersion::V3 as i32,
        config_source_specifier: Some(core::config_source::ConfigSourceSpecifier::Ads(
            core::AggregatedConfigSource {},
        )),
        ..Default::default()
    }
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}
