//! Tests of the `rate-limit` policy.

use super::*;
use chiton_guest::testing::World;

#[test]
fn an_interval_becomes_milliseconds() {
    let run = World::new().policy_with::<RateLimit>("{requests: 5, per: minute}");
    let limit = Limit {
        requests: 5,
        interval_ms: 60_000,
        burst: None,
    };
    assert_eq!(run.effects(), [Effect::RateLimit(limit)]);
}

#[test]
fn what_is_no_limit_is_refused() {
    for (settings, why) in [
        ("{requests: 0, per: second}", "requests: must be at least 1"),
        (
            "{requests: 5, per: second, burst: 4}",
            "burst: is less than requests",
        ),
        (
            "{requests: 5, per: day}",
            "spec.default.per: unknown variant `day`",
        ),
        (
            "{requests: -1, per: hour}",
            "spec.default.requests: invalid value",
        ),
    ] {
        let run = World::new().policy_with::<RateLimit>(settings);
        assert!(run.refusal().contains(why), "{}", run.refusal());
    }
}
