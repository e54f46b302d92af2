//! Small values that many messages need, and maps in a fixed order.
//!
//! prost keeps maps in a `HashMap`, whose order differs from one to the next; encoded, the same map
//! would have many forms. So messages with maps of more than one entry are encoded without them,
//! and the entries are appended in the order of their keys: protobuf lets the fields of a message
//! come in any order.

use super::pb::envoy::config::core::v3 as core;
use super::pb::envoy::r#type::matcher::v3 as matcher;
use super::pb::envoy::r#type::v3 as kind;
use super::pb::google::protobuf::{Any, BoolValue, Duration, UInt32Value};
use chiton_xds::{Resource, ResourceType};
use prost::encoding::{WireType, encode_key, encode_varint};
use prost::{Message, Name};
use std::collections::BTreeMap;

/// A map from names to messages of any type.
pub type AnyMap = BTreeMap<String, Any>;

/// A message as `Any`.
pub fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

/// A resource of an encoded body.
pub fn resource(kind: ResourceType, name: &str, body: Vec<u8>) -> Resource {
    Resource::new(kind, name, body)
}

/// "Ask the control plane, on the stream that is there."
pub fn ads() -> core::ConfigSource {
    core::ConfigSource {
        resource_api_version: core::ApiVersion::V3.into(),
        config_source_specifier: Some(core::config_source::ConfigSourceSpecifier::Ads(
            core::AggregatedConfigSource {},
        )),
        ..Default::default()
    }
}

/// A duration of milliseconds. Envoy's range ends far above [`super::checks::MAX_MILLISECONDS`],
/// where this is cut.
pub fn milliseconds(value: u64) -> Duration {
    let value = value.min(super::checks::MAX_MILLISECONDS);
    Duration {
        seconds: i64::try_from(value / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(value % 1000).unwrap_or(0) * 1_000_000,
    }
}

/// A duration of whole seconds.
pub fn seconds(value: u32) -> Duration {
    Duration {
        seconds: value.into(),
        nanos: 0,
    }
}

pub fn boolean(value: bool) -> BoolValue {
    BoolValue { value }
}

pub fn number(value: u32) -> UInt32Value {
    UInt32Value { value }
}

/// An RE2 expression for the whole of a string.
pub fn regex(expression: impl Into<String>) -> matcher::RegexMatcher {
    matcher::RegexMatcher {
        regex: expression.into(),
        engine_type: None,
    }
}

pub fn exact(value: impl Into<String>) -> matcher::StringMatcher {
    matcher::StringMatcher {
        ignore_case: false,
        match_pattern: Some(matcher::string_matcher::MatchPattern::Exact(value.into())),
    }
}

pub fn matches(expression: impl Into<String>) -> matcher::StringMatcher {
    matcher::StringMatcher {
        ignore_case: false,
        match_pattern: Some(matcher::string_matcher::MatchPattern::SafeRegex(regex(
            expression,
        ))),
    }
}

/// A share of requests, to a millionth.
pub fn share(numerator: u32, denominator: u32) -> core::RuntimeFractionalPercent {
    const MILLION: u64 = 1_000_000;
    let parts = u64::from(numerator) * MILLION / u64::from(denominator.max(1));
    core::RuntimeFractionalPercent {
        default_value: Some(kind::FractionalPercent {
            numerator: u32::try_from(parts.min(MILLION)).unwrap_or(0),
            denominator: kind::fractional_percent::DenominatorType::Million.into(),
        }),
        runtime_key: String::new(),
    }
}

/// Appends a message field.
pub fn append_message(body: &mut Vec<u8>, tag: u32, message: &[u8]) {
    encode_key(tag, WireType::LengthDelimited, body);
    encode_varint(message.len() as u64, body);
    body.extend_from_slice(message);
}

/// Appends a `map<string, Any>` field in the order of its keys.
pub fn append_map(body: &mut Vec<u8>, tag: u32, map: &AnyMap) {
    for (key, value) in map {
        let mut entry = Vec::new();
        append_message(&mut entry, 1, key.as_bytes());
        append_message(&mut entry, 2, &value.encode_to_vec());
        append_message(body, tag, &entry);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::pb::envoy::config::route::v3 as route;
    use super::*;

    #[test]
    fn appended_entries_are_read_as_the_map() {
        let map: AnyMap = ["b", "a"]
            .into_iter()
            .map(|name| (name.to_owned(), any(&boolean(true))))
            .collect();
        let mut body = route::Route {
            name: "r".into(),
            ..Default::default()
        }
        .encode_to_vec();
        append_map(&mut body, 13, &map);
        let read = route::Route::decode(body.as_slice()).expect("a route");
        assert_eq!(read.name, "r");
        assert_eq!(
            read.typed_per_filter_config.into_iter().collect::<AnyMap>(),
            map
        );
    }

    #[test]
    fn shares_and_durations_are_cut_to_their_range() {
        let parts = |n, d| share(n, d).default_value.expect("a value").numerator;
        assert_eq!(parts(1, 3), 333_333);
        assert_eq!(parts(5, 1), 1_000_000);
        assert_eq!(parts(1, 0), 1_000_000);
        assert_eq!(milliseconds(1_500).nanos, 500_000_000);
        assert_eq!(milliseconds(u64::MAX).seconds, 365 * 24 * 3600);
    }
}
