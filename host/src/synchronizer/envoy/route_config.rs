//! Route configurations: what holds for all virtual hosts of a listener (or chain).

use super::effects::{Place, per_filter};
use super::pb::envoy::config::route::v3 as route;
use super::route_action::MAX_BODY;
use super::wire::{ads, append_map, boolean, number, resource};
use crate::synchronizer::model::RouteConfig;
use chiton_xds::{Resource, ResourceType};
use prost::Message;

/// Field number of `RouteConfiguration.typed_per_filter_config`.
const PER_FILTER: u32 = 16;

/// The route configuration, without virtual hosts: these come by VHDS.
#[must_use]
pub fn route_config(config: &RouteConfig) -> Resource {
    let message = route::RouteConfiguration {
        name: config.name.clone(),
        vhds: Some(route::Vhds {
            config_source: Some(ads()),
        }),
        // `Host: a.example:8080` means a.example; backends see the header as it came.
        ignore_port_in_host_matching: true,
        // A cluster may come later than a route that names it.
        validate_clusters: Some(boolean(false)),
        max_direct_response_body_size_bytes: Some(number(
            u32::try_from(MAX_BODY).unwrap_or(u32::MAX),
        )),
        ..Default::default()
    };
    let mut body = message.encode_to_vec();
    append_map(
        &mut body,
        PER_FILTER,
        &per_filter(&config.effects, Place::Wide, &config.name),
    );
    resource(ResourceType::RouteConfiguration, &config.name, body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::filters;
    use super::*;
    use crate::synchronizer::model::PlacedEffect;
    use chiton_ir::policy::{Cors, Effect, RateLimit};
    use std::sync::Arc;

    #[test]
    fn effects_become_settings_of_filters_and_bytes_do_not_vary() {
        let placed = |effect: Effect| PlacedEffect {
            effect: Arc::new(effect),
            bucket: "b".into(),
            keys: None,
        };
        let limit = RateLimit {
            requests: 1,
            interval_ms: 1_000,
            burst: None,
        };
        let config = RouteConfig {
            name: "http-80".into(),
            effects: [
                ("cors", placed(Effect::Cors(Cors::default()))),
                ("rateLimit", placed(Effect::RateLimit(limit))),
            ]
            .into(),
        };
        let encoded = route_config(&config);
        for _ in 0..20 {
            assert_eq!(route_config(&config), encoded);
        }
        let read = route::RouteConfiguration::decode(encoded.body.clone()).expect("a message");
        assert!(read.vhds.is_some());
        assert_eq!(read.typed_per_filter_config.len(), 2);
        assert_eq!(
            read.typed_per_filter_config.get("rate-limit_http-80"),
            Some(&filters::on())
        );
    }
}
