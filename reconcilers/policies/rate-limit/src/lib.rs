//! The `rate-limit` policy: a token bucket for each target, on each proxy.
//!
//! ```yaml
//! type: rate-limit
//! targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
//! default: {requests: 100, per: minute, burst: 150}
//! ```
//!
//! A request beyond the limit is answered with 429. Counts start anew where a local rate limit of
//! the same listener changes.

use chiton_guest::ir::policy::{Effect, RateLimit as Limit};
use chiton_guest::{Context, Error, Policy};
use schemars::JsonSchema;
use serde::Deserialize;

/// The policy.
pub struct RateLimit;

/// What may stand under `default` and `override`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Requests allowed per interval.
    #[schemars(range(min = 1))]
    requests: u32,
    /// The interval.
    per: Interval,
    /// How many requests may come at once; `requests` unless given, and not less.
    #[serde(default)]
    #[schemars(range(min = 1))]
    burst: Option<u32>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Interval {
    Second,
    Minute,
    Hour,
}

impl Interval {
    fn milliseconds(self) -> u64 {
        match self {
            Self::Second => 1_000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }
}

impl Policy for RateLimit {
    type Settings = Settings;
    const NAME: &'static str = "rate-limit";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn effects(settings: Settings, _: &mut Context) -> Result<Vec<Effect>, Error> {
        let Settings {
            requests, burst, ..
        } = settings;
        if requests == 0 {
            return Err(Error::invalid("requests: must be at least 1"));
        }
        if burst.is_some_and(|burst| burst < requests) {
            return Err(Error::invalid(
                "burst: is less than requests: raise it or leave it out",
            ));
        }
        Ok(vec![Effect::RateLimit(Limit {
            requests,
            interval_ms: settings.per.milliseconds(),
            burst,
        })])
    }
}

chiton_guest::export!(RateLimit);

#[cfg(test)]
mod tests;
