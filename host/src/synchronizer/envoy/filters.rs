//! The HTTP filters: all of them in every listener, in one order, switched off.
//!
//! A change of a listener's filters drains its connections, so no policy may lead to one. Each
//! filter is installed `disabled` and is switched on by the `typed_per_filter_config` of a route
//! configuration, a virtual host or a route; the most specific one counts.
//!
//! | filter | effect | its settings come from |
//! | --- | --- | --- |
//! | `envoy.filters.http.cors` | `cors`, which answers preflights before anything asks for a key | where it is switched on |
//! | `envoy.filters.http.api_key_auth` | `apiKey` | where it is switched on |
//! | `rate-limit_<route configuration>` | `rateLimit` | extension config discovery; where it is switched on only that |
//! | `chiton.request-headers.wide`, `.route` | `requestHeaders` | where it is switched on |
//! | `chiton.response-headers.wide`, `.route` | `responseHeaders` | where it is switched on |
//! | `envoy.filters.http.router` | – | – |
//!
//! Header mutation applies the settings of *every* level at which it is switched on. A policy
//! replaces another one whole, so the wide levels (route configuration, virtual host) and routes
//! have instances of their own, and a route with such an effect switches the wide instance off.
//! Requests and responses have their own instances too: a route that replaces the one keeps the
//! other.

use super::pb::envoy::config::core::v3 as core;
use super::pb::envoy::config::route::v3 as route;
use super::pb::envoy::extensions::filters::http::api_key_auth::v3::ApiKeyAuth;
use super::pb::envoy::extensions::filters::http::cors::v3::Cors;
use super::pb::envoy::extensions::filters::http::header_mutation::v3::HeaderMutation;
use super::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use super::pb::envoy::extensions::filters::http::router::v3::Router;
use super::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use super::pb::google::protobuf::Any;
use super::wire::{ads, any};
use crate::synchronizer::ids::RATE_LIMIT;
use prost::{Message, Name};

pub const CORS: &str = "envoy.filters.http.cors";
pub const API_KEY: &str = "envoy.filters.http.api_key_auth";
pub const REQUEST_HEADERS_WIDE: &str = "chiton.request-headers.wide";
pub const RESPONSE_HEADERS_WIDE: &str = "chiton.response-headers.wide";
pub const REQUEST_HEADERS_ROUTE: &str = "chiton.request-headers.route";
pub const RESPONSE_HEADERS_ROUTE: &str = "chiton.response-headers.route";
const ROUTER: &str = "envoy.filters.http.router";

/// Name of the rate limit filter of a route configuration, and of the resource that holds its
/// buckets: Envoy asks for a filter's settings by the filter's name.
#[must_use]
pub fn rate_limit_name(route_config: &str) -> String {
    format!("{RATE_LIMIT}{route_config}")
}

/// All filters of a route configuration's connections.
pub fn http_filters(route_config: &str) -> Vec<hcm::HttpFilter> {
    vec![
        disabled(CORS, &Cors::default()),
        disabled(API_KEY, &ApiKeyAuth::default()),
        hcm::HttpFilter {
            name: rate_limit_name(route_config),
            disabled: true,
            config_type: Some(hcm::http_filter::ConfigType::ConfigDiscovery(
                core::ExtensionConfigSource {
                    config_source: Some(ads()),
                    type_urls: vec![LocalRateLimit::type_url()],
                    ..Default::default()
                },
            )),
            ..Default::default()
        },
        disabled(REQUEST_HEADERS_WIDE, &HeaderMutation::default()),
        disabled(RESPONSE_HEADERS_WIDE, &HeaderMutation::default()),
        disabled(REQUEST_HEADERS_ROUTE, &HeaderMutation::default()),
        disabled(RESPONSE_HEADERS_ROUTE, &HeaderMutation::default()),
        hcm::HttpFilter {
            name: ROUTER.into(),
            config_type: Some(hcm::http_filter::ConfigType::TypedConfig(any(&Router {
                // No `x-envoy-…` headers to backends and clients: they are Envoy's own business.
                suppress_envoy_headers: true,
                ..Default::default()
            }))),
            ..Default::default()
        },
    ]
}

fn disabled<M: Message + Name>(name: &str, config: &M) -> hcm::HttpFilter {
    hcm::HttpFilter {
        name: name.into(),
        disabled: true,
        config_type: Some(hcm::http_filter::ConfigType::TypedConfig(any(config))),
        ..Default::default()
    }
}

/// Switches a filter off.
pub fn off() -> Any {
    any(&route::FilterConfig {
        disabled: true,
        ..Default::default()
    })
}

/// Switches a filter on with the settings that it has already. An empty `config` means just that;
/// without one Envoy refuses the route.
pub fn on() -> Any {
    any(&route::FilterConfig {
        config: Some(Any::default()),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_but_the_router_waits_to_be_switched_on() {
        let filters = http_filters("http-8080");
        let names: Vec<_> = filters.iter().map(|filter| filter.name.as_str()).collect();
        assert_eq!(
            names,
            [
                CORS,
                API_KEY,
                "rate-limit_http-8080",
                REQUEST_HEADERS_WIDE,
                RESPONSE_HEADERS_WIDE,
                REQUEST_HEADERS_ROUTE,
                RESPONSE_HEADERS_ROUTE,
                ROUTER
            ]
        );
        let enabled: Vec<_> = filters
            .iter()
            .filter(|filter| !filter.disabled)
            .map(|filter| filter.name.as_str())
            .collect();
        assert_eq!(enabled, [ROUTER]);
    }
}
