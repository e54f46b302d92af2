//! Effects as settings of filters at one place.

use super::filters::{self, on};
use super::pb::envoy::config::core::v3::Metadata;
use super::pb::envoy::extensions::filters::http::api_key_auth::v3 as api_key;
use super::pb::google::protobuf::{Struct, Value, value};
use super::wire::{AnyMap, any};
use super::{cors, headers};
use crate::synchronizer::model::{Credential, Effects, PlacedEffect};
use chiton_ir::policy::{ApiKey, Effect, KeySource};
use std::collections::BTreeSet;

/// Where effects are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a route configuration or a virtual host.
    Wide,
    /// On a route.
    Route,
}

/// `typed_per_filter_config` of the effects of a place. `respond` is no filter, and is not in it.
pub fn per_filter(effects: &Effects, place: Place, route_config: &str) -> AnyMap {
    effects
        .values()
        .flat_map(|placed| settings(placed, place, route_config))
        .collect()
}

/// `typed_per_filter_config` that switches effects of wider places off.
pub fn switched_off(names: &[&str], route_config: &str) -> AnyMap {
    names
        .iter()
        .filter_map(|name| {
            let filter = match *name {
                "cors" => filters::CORS.to_owned(),
                "apiKey" => filters::API_KEY.to_owned(),
                "rateLimit" => filters::rate_limit_name(route_config),
                "requestHeaders" => filters::REQUEST_HEADERS_WIDE.to_owned(),
                "responseHeaders" => filters::RESPONSE_HEADERS_WIDE.to_owned(),
                _ => return None,
            };
            Some((filter, filters::off()))
        })
        .collect()
}

fn settings(
    placed: &PlacedEffect,
    place: Place,
    route_config: &str,
) -> Vec<(String, super::pb::google::protobuf::Any)> {
    let (wide, own, settings) = match &*placed.effect {
        Effect::RequestHeaders(change) => (
            filters::REQUEST_HEADERS_WIDE,
            filters::REQUEST_HEADERS_ROUTE,
            any(&headers::of_requests(change)),
        ),
        Effect::ResponseHeaders(change) => (
            filters::RESPONSE_HEADERS_WIDE,
            filters::RESPONSE_HEADERS_ROUTE,
            any(&headers::of_responses(change)),
        ),
        Effect::Cors(settings) => {
            return vec![(filters::CORS.into(), any(&cors::policy(settings)))];
        }
        Effect::ApiKey(settings) => {
            let keys = placed.keys.as_deref().map_or(&[][..], Vec::as_slice);
            return vec![(filters::API_KEY.into(), any(&api_keys(settings, keys)))];
        }
        Effect::RateLimit(_) => {
            return vec![(filters::rate_limit_name(route_config), on())];
        }
        Effect::Respond(_) => return Vec::new(),
    };
    match place {
        Place::Wide => vec![(wide.into(), settings)],
        Place::Route => vec![(own.into(), settings), (wide.into(), filters::off())],
    }
}

/// Settings of the API key filter. Without keys nobody is let in. Envoy refuses a key that is there
/// twice, so of equal keys the first client by name counts.
fn api_keys(settings: &ApiKey, keys: &[Credential]) -> api_key::ApiKeyAuthPerRoute {
    let mut sorted: Vec<_> = keys
        .iter()
        .filter(|credential| !credential.key.is_empty() && !credential.client.is_empty())
        .collect();
    sorted.sort_unstable();
    let mut seen = BTreeSet::new();
    api_key::ApiKeyAuthPerRoute {
        credentials: sorted
            .into_iter()
            .filter(|credential| seen.insert(&credential.key))
            .map(|credential| api_key::Credential {
                key: credential.key.clone(),
                client: credential.client.clone(),
            })
            .collect(),
        key_sources: settings.sources.iter().map(key_source).collect(),
        allowed_clients: Vec::new(),
        forwarding: settings
            .client_header
            .as_ref()
            .map(|name| api_key::Forwarding {
                header: name.to_ascii_lowercase(),
                hide_credentials: false,
            }),
    }
}

fn key_source(source: &KeySource) -> api_key::KeySource {
    let mut found = api_key::KeySource::default();
    match source {
        KeySource::Header(name) => found.header = name.to_ascii_lowercase(),
        KeySource::Query(name) => found.query.clone_from(name),
        KeySource::Cookie(name) => found.cookie.clone_from(name),
    }
    found
}

/// Metadata namespace and key that name a route's rate-limit bucket.
pub const BUCKET_NAMESPACE: &str = "chiton.rate-limit";
/// See [`BUCKET_NAMESPACE`].
pub const BUCKET_KEY: &str = "bucket";

/// Metadata that names a bucket.
pub fn bucket(name: &str) -> Metadata {
    let value = Value {
        kind: Some(value::Kind::StringValue(name.to_owned())),
    };
    let fields = [(BUCKET_KEY.to_owned(), value)].into();
    Metadata {
        filter_metadata: [(BUCKET_NAMESPACE.to_owned(), Struct { fields })].into(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use chiton_ir::route::HeaderChange;
    use prost::Message;
    use std::sync::Arc;

    fn placed(effect: Effect, keys: Option<Vec<Credential>>) -> Effects {
        let name = effect.name();
        let placed = PlacedEffect {
            effect: Arc::new(effect),
            bucket: "b".into(),
            keys: keys.map(Arc::new),
        };
        [(name, placed)].into()
    }

    #[test]
    fn a_routes_own_headers_switch_the_wide_ones_off() {
        let effects = placed(Effect::RequestHeaders(HeaderChange::default()), None);
        let wide = per_filter(&effects, Place::Wide, "rc");
        assert_eq!(
            wide.keys().collect::<Vec<_>>(),
            [filters::REQUEST_HEADERS_WIDE]
        );
        let own = per_filter(&effects, Place::Route, "rc");
        assert_eq!(own.len(), 2);
        assert_eq!(own[filters::REQUEST_HEADERS_WIDE], filters::off());
    }

    #[test]
    fn what_is_switched_off_is_the_wide_filter() {
        let off = switched_off(&["cors", "rateLimit", "respond", "responseHeaders"], "rc");
        assert_eq!(
            off.keys().collect::<Vec<_>>(),
            [
                filters::RESPONSE_HEADERS_WIDE,
                filters::CORS,
                "rate-limit_rc"
            ]
        );
    }

    #[test]
    fn an_equal_key_counts_once_and_no_keys_let_nobody_in() {
        let settings = ApiKey {
            secrets: Vec::new(),
            sources: vec![KeySource::Header("X-Key".into())],
            client_header: None,
        };
        let key = |client: &str, key: &str| Credential {
            client: client.into(),
            key: key.into(),
        };
        let read = |keys| {
            let map = per_filter(
                &placed(Effect::ApiKey(settings.clone()), keys),
                Place::Route,
                "rc",
            );
            api_key::ApiKeyAuthPerRoute::decode(map[filters::API_KEY].value.as_slice())
                .expect("api key settings")
        };
        let found = read(Some(vec![key("b", "1"), key("a", "1"), key("c", "")]));
        assert_eq!(found.credentials.len(), 1);
        assert_eq!(found.credentials[0].client, "a");
        assert_eq!(found.key_sources[0].header, "x-key");
        assert_eq!(read(None).credentials, []);
    }
}
