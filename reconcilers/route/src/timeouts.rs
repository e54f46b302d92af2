//! Time limits, and durations as the Gateway API writes them (GEP-2257).

use crate::fault::Faults;
use chiton_guest::ir::route::Timeouts;
use gateway_api::apis::standard::httproutes::HttpRouteRulesTimeouts as SpecTimeouts;

/// The time limits of a rule.
pub fn convert(at: &str, spec: Option<&SpecTimeouts>, faults: &mut Faults) -> Timeouts {
    let Some(spec) = spec else {
        return Timeouts::default();
    };
    let mut read = |field: &str, value: Option<&str>| {
        let parsed = milliseconds(value?);
        if parsed.is_none() {
            faults.value(
                format!("{at}.timeouts.{field}"),
                format!(
                    "{:?} is not a duration: write one to four numbers with the unit h, m, s or \
                     ms, for example 1m30s",
                    value.unwrap_or_default()
                ),
            );
        }
        parsed
    };
    let timeouts = Timeouts {
        request_ms: read("request", spec.request.as_deref()),
        backend_request_ms: read("backendRequest", spec.backend_request.as_deref()),
    };
    if let (Some(request), Some(backend)) = (timeouts.request_ms, timeouts.backend_request_ms)
        && request > 0
        && backend > request
    {
        faults.value(
            format!("{at}.timeouts.backendRequest"),
            "must not be longer than `request`",
        );
    }
    timeouts
}

/// The milliseconds of a duration: `^([0-9]{1,5}(h|m|s|ms)){1,4}$`.
fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    for _ in 0..4 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at_checked(digits)?;
        if digits > 5 {
            return None;
        }
        let (unit, tail) = unit(tail)?;
        total += number.parse::<u64>().ok()? * unit;
        rest = tail;
        if rest.is_empty() {
            return Some(total);
        }
    }
    None
}

fn unit(text: &str) -> Option<(u64, &str)> {
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]
        .into_iter()
        .find_map(|(name, unit)| Some((unit, text.strip_prefix(name)?)))
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("0ms", Some(0)),
            ("10ms", Some(10)),
            ("1s", Some(1_000)),
            ("1m30s", Some(90_000)),
            ("1h1m1s1ms", Some(3_661_001)),
            ("1s1s", Some(2_000)),
            ("99999h", Some(359_996_400_000)),
            ("", None),
            ("1", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("1us", None),
            ("100000s", None),
            ("1s1s1s1s1s", None),
            ("1s ", None),
            ("1 s", None),
            ("١s", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text:?}");
        }
    }
}
