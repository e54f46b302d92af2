//! The buckets of a route configuration: settings of its rate limit filter, sent on their own.
//!
//! Buckets in the settings of a route would be full again after any push of virtual hosts; in the
//! filter's own settings only a change of these settings fills them. The filter looks at the
//! metadata of the route for the bucket's name; where a route names none, the bucket of the whole
//! route configuration counts, if there is one. Where the filter is switched off, none counts.

use super::effects::{BUCKET_KEY, BUCKET_NAMESPACE};
use super::pb::envoy::config::core::v3::TypedExtensionConfig;
use super::pb::envoy::config::route::v3 as route;
use super::pb::envoy::extensions::common::ratelimit::v3 as common;
use super::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use super::pb::envoy::r#type::metadata::v3 as metadata;
use super::pb::envoy::r#type::v3::TokenBucket;
use super::wire::{any, milliseconds, number, resource, share};
use crate::synchronizer::model::RateLimits;
use chiton_ir::policy::RateLimit;
use chiton_xds::{Resource, ResourceType};
use prost::Message;
use route::rate_limit::action;

/// The extension configuration that holds the buckets.
#[must_use]
pub fn rate_limits(limits: &RateLimits) -> Resource {
    let config = TypedExtensionConfig {
        name: limits.name.clone(),
        typed_config: Some(any(&filter(limits))),
    };
    resource(
        ResourceType::ExtensionConfig,
        &limits.name,
        config.encode_to_vec(),
    )
}

fn filter(limits: &RateLimits) -> LocalRateLimit {
    LocalRateLimit {
        stat_prefix: "rate_limit".into(),
        filter_enabled: Some(share(1, 1)),
        filter_enforced: Some(share(1, 1)),
        descriptors: limits
            .buckets
            .iter()
            .map(|(name, limit)| descriptor(name, limit))
            .collect(),
        rate_limits: vec![by_bucket(limits.wide.as_deref())],
        enable_retry_after_header: true,
        ..Default::default()
    }
}

fn descriptor(name: &str, limit: &RateLimit) -> common::LocalRateLimitDescriptor {
    common::LocalRateLimitDescriptor {
        entries: vec![common::rate_limit_descriptor::Entry {
            key: BUCKET_KEY.into(),
            value: name.to_owned(),
        }],
        token_bucket: Some(TokenBucket {
            max_tokens: limit.burst.unwrap_or(limit.requests).max(1),
            tokens_per_fill: Some(number(limit.requests.max(1))),
            fill_interval: Some(milliseconds(
                limit.interval_ms.max(super::checks::MIN_INTERVAL_MS),
            )),
        }),
        shadow_mode: false,
    }
}

fn by_bucket(wide: Option<&str>) -> route::RateLimit {
    let path = metadata::metadata_key::PathSegment {
        segment: Some(metadata::metadata_key::path_segment::Segment::Key(
            BUCKET_KEY.into(),
        )),
    };
    let from_route = action::MetaData {
        descriptor_key: BUCKET_KEY.into(),
        metadata_key: Some(metadata::MetadataKey {
            key: BUCKET_NAMESPACE.into(),
            path: vec![path],
        }),
        default_value: wide.unwrap_or_default().to_owned(),
        source: action::meta_data::Source::RouteEntry.into(),
        skip_if_absent: false,
    };
    route::RateLimit {
        actions: vec![route::rate_limit::Action {
            action_specifier: Some(action::ActionSpecifier::Metadata(from_route)),
        }],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn each_bucket_is_a_descriptor() {
        let limit = RateLimit {
            requests: 5,
            interval_ms: 1_000,
            burst: Some(10),
        };
        let limits = RateLimits {
            name: "rate-limit_rc".into(),
            buckets: [("b".to_owned(), limit)].into(),
            wide: Some("b".into()),
        };
        let filter = filter(&limits);
        let bucket = filter.descriptors[0].token_bucket.expect("a bucket");
        assert_eq!(bucket.max_tokens, 10);
        assert_eq!(bucket.tokens_per_fill, Some(number(5)));
        assert_eq!(rate_limits(&limits).name.name, "rate-limit_rc");
        assert_eq!(rate_limits(&limits), rate_limits(&limits));
    }
}
