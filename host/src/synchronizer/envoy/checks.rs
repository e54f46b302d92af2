//! What Envoy would refuse, said before it is sent.
//!
//! A proxy refuses a whole resource for one bad value in it, and a virtual host is shared by many
//! routes. Reconcilers check what people write; a document may come from a module that does not, so
//! assembly asks here before it encodes, and answers with 500 where the answer is no. The single
//! values are checked by [`chiton_ir::check`], by the same lines as in the built-in reconcilers.
//!
//! Every check returns a sentence's end that names the field: "filters: `:path` is not a header
//! name".

use crate::synchronizer::model::{Action, RouteEntry};
use chiton_ir::check::{self, Verdict, hostname, http};
use chiton_ir::policy::{ApiKey, Cors, Effect, KeySource, RateLimit, Respond};
use chiton_ir::route::{
    Filter, HeaderChange, Match, PathChange, PathMatch, Redirect, Rewrite, StringMatch, Timeouts,
    ValueMatch,
};

/// Longest time: a year. Beyond it a limit is none.
pub const MAX_MILLISECONDS: u64 = 365 * 24 * 3_600 * 1_000;
/// Shortest interval in which a rate-limit bucket is filled.
pub const MIN_INTERVAL_MS: u64 = 50;
/// Most headers that Envoy adds at one place.
const MAX_HEADERS: usize = 1_000;
/// Longest name of a query parameter or cookie, in bytes.
const MAX_NAME: usize = 1_024;

/// Whether Envoy takes everything of an entry.
pub fn entry(entry: &RouteEntry) -> Verdict {
    api_prefix(&entry.prefix)?;
    matches(&entry.matches)?;
    if let Some((name, value, _)) = &entry.environment {
        http::header_name(name)?;
        http::header_value(value)?;
    }
    filters(&entry.filters)?;
    timeouts(entry.timeouts)?;
    match &entry.action {
        Action::Forward { clusters, broken } => {
            if clusters.is_empty() && *broken == 0 {
                return Err("backends: there is none".into());
            }
            for cluster in clusters {
                filters(&cluster.filters).map_err(at("backends"))?;
            }
        }
        Action::Respond { status, body } => respond(*status, body)?,
        Action::Redirect => {}
    }
    entry
        .effects
        .values()
        .try_for_each(|placed| effect(&placed.effect))
}

/// Whether a hostname can be the domain of a virtual host or an SNI name.
pub fn domain(name: &str) -> Verdict {
    if name == hostname::ANY {
        return Ok(());
    }
    hostname::check(name)
}

/// Whether Envoy takes an effect's settings.
pub fn effect(effect: &Effect) -> Verdict {
    match effect {
        Effect::RequestHeaders(change) | Effect::ResponseHeaders(change) => header_change(change),
        Effect::Cors(settings) => cors(settings),
        Effect::RateLimit(limit) => rate_limit(limit),
        Effect::ApiKey(settings) => api_key(settings),
        Effect::Respond(Respond { status, body }) => respond(*status, body),
    }
    .map_err(at(effect.name()))
}

/// Whether a match can be compared.
pub fn matches(found: &Match) -> Verdict {
    match &found.path {
        PathMatch::Exact(path) | PathMatch::Prefix(path) => http::path(path),
        PathMatch::Regex(expression) => check::regex::check(expression),
    }
    .map_err(at("path"))?;
    for header in &found.headers {
        http::header_name(&header.name)
            .and_then(|()| value(header))
            .map_err(at("headers"))?;
    }
    for parameter in &found.query {
        name(&parameter.name)
            .and_then(|()| value(parameter))
            .map_err(at("query"))?;
    }
    found
        .method
        .as_deref()
        .map_or(Ok(()), http::header_name)
        .map_err(at("method"))
}

/// Whether filters can be encoded.
pub fn filters(filters: &[Filter]) -> Verdict {
    filters
        .iter()
        .try_for_each(|filter| match filter {
            Filter::RequestHeaders(change) | Filter::ResponseHeaders(change) => {
                header_change(change)
            }
            Filter::Redirect(filter) => redirect(filter),
            Filter::Rewrite(filter) => rewrite(filter),
            Filter::Mirror(_) => Ok(()),
        })
        .map_err(at("filters"))
}

/// Whether headers can be changed so.
pub fn header_change(change: &HeaderChange) -> Verdict {
    for header in change.set.iter().chain(&change.add) {
        http::modifiable_header(&header.name)?;
        http::header_value(&header.value)?;
    }
    change
        .remove
        .iter()
        .try_for_each(|name| http::modifiable_header(name))?;
    if change.set.len() + change.add.len() > MAX_HEADERS || change.remove.len() > MAX_HEADERS {
        return Err(format!("more than {MAX_HEADERS} headers"));
    }
    Ok(())
}

fn value(found: &ValueMatch) -> Verdict {
    match &found.value {
        // An empty value can be compared, though it cannot be set.
        StringMatch::Exact(text) if text.is_empty() => Ok(()),
        StringMatch::Exact(text) => http::header_value(text),
        StringMatch::Regex(expression) => check::regex::check(expression),
    }
}

fn name(name: &str) -> Verdict {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "a name must have 1 to {MAX_NAME} bytes and no control characters"
        ));
    }
    Ok(())
}

fn redirect(filter: &Redirect) -> Verdict {
    if !matches!(filter.scheme.as_deref(), None | Some("http" | "https")) {
        return Err("the scheme of a redirect must be http or https".into());
    }
    if !matches!(filter.status, 301 | 302 | 303 | 307 | 308) {
        return Err("the status of a redirect must be 301, 302, 303, 307 or 308".into());
    }
    if filter.port == Some(0) {
        return Err("the port of a redirect must not be 0".into());
    }
    new_host(filter.hostname.as_deref())?;
    filter.path.as_ref().map_or(Ok(()), new_path)
}

fn rewrite(filter: &Rewrite) -> Verdict {
    new_host(filter.hostname.as_deref())?;
    filter.path.as_ref().map_or(Ok(()), new_path)
}

fn new_host(name: Option<&str>) -> Verdict {
    name.map_or(Ok(()), hostname::precise)
}

fn new_path(change: &PathChange) -> Verdict {
    match change {
        PathChange::Full(path) | PathChange::Prefix(path) => http::new_path(path),
    }
}

fn api_prefix(prefix: &str) -> Verdict {
    if prefix.is_empty() {
        return Ok(());
    }
    if prefix.ends_with('/') {
        return Err("prefix: must not end with `/`".into());
    }
    http::path(prefix).map_err(at("prefix"))
}

fn timeouts(timeouts: Timeouts) -> Verdict {
    let all = [timeouts.request_ms, timeouts.backend_request_ms];
    if all.into_iter().flatten().any(|ms| ms > MAX_MILLISECONDS) {
        return Err("timeouts: must not be longer than a year".into());
    }
    Ok(())
}

fn respond(status: u16, body: &str) -> Verdict {
    if !(200..=599).contains(&status) {
        return Err("status must be 200 to 599".into());
    }
    if body.len() > super::route_action::MAX_BODY {
        return Err("the body must not have more than 4,096 bytes".into());
    }
    Ok(())
}

fn cors(settings: &Cors) -> Verdict {
    for origin in &settings.allow_origins {
        let plain = !origin.is_empty()
            && origin.len() <= MAX_NAME
            && origin.bytes().all(|b| b.is_ascii_graphic());
        if !plain || origin.matches('*').count() > 1 {
            return Err(format!("{origin:?} is not an origin"));
        }
    }
    let names = [
        &settings.allow_methods,
        &settings.allow_headers,
        &settings.expose_headers,
    ];
    names
        .into_iter()
        .flatten()
        .try_for_each(|name| http::header_name(name))
}

fn rate_limit(limit: &RateLimit) -> Verdict {
    if limit.requests == 0 {
        return Err("requests must be at least 1".into());
    }
    if !(MIN_INTERVAL_MS..=MAX_MILLISECONDS).contains(&limit.interval_ms) {
        return Err(format!(
            "the interval must be {MIN_INTERVAL_MS} ms to a year"
        ));
    }
    if limit.burst.is_some_and(|burst| burst < limit.requests) {
        return Err("burst must not be below requests".into());
    }
    Ok(())
}

fn api_key(settings: &ApiKey) -> Verdict {
    if settings.sources.is_empty() {
        return Err("there must be a source".into());
    }
    for source in &settings.sources {
        match source {
            KeySource::Header(header) | KeySource::Cookie(header) => http::header_name(header)?,
            KeySource::Query(parameter) => name(parameter)?,
        }
    }
    settings
        .client_header
        .as_deref()
        .map_or(Ok(()), http::modifiable_header)
}

fn at(field: &str) -> impl Fn(String) -> String + '_ {
    move |why| format!("{field}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use chiton_ir::route::Header;

    fn set(name: &str, value: &str) -> Effect {
        Effect::RequestHeaders(HeaderChange {
            set: vec![Header {
                name: name.into(),
                value: value.into(),
            }],
            ..HeaderChange::default()
        })
    }

    #[test]
    fn headers_that_envoy_guards_are_refused() {
        assert_eq!(effect(&set("x-a", "100%")), Ok(()));
        for (name, value) in [
            ("Host", "a"),
            (":path", "/"),
            ("x-a", "a\r\nb: c"),
            ("", ""),
        ] {
            assert!(effect(&set(name, value)).is_err(), "{name:?}");
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let limit = |requests, interval_ms, burst| {
            effect(&Effect::RateLimit(RateLimit {
                requests,
                interval_ms,
                burst,
            }))
        };
        assert_eq!(limit(1, 50, Some(1)), Ok(()));
        assert!(limit(0, 50, None).is_err());
        assert!(limit(1, 49, None).is_err());
        assert!(limit(2, 50, Some(1)).is_err());
        assert!(limit(1, u64::MAX, None).is_err());
        assert!(respond(600, "").is_err());
        assert!(respond(200, &"a".repeat(4_097)).is_err());
    }

    #[test]
    fn matches_and_redirects_are_looked_at() {
        let path = |path| {
            matches(&Match {
                path,
                ..Match::default()
            })
        };
        assert_eq!(path(PathMatch::Prefix("/a".into())), Ok(()));
        assert!(path(PathMatch::Prefix("/a?b".into())).is_err());
        assert!(path(PathMatch::Regex("(".into())).is_err());
        let redirect = Filter::Redirect(Redirect {
            hostname: Some("not a host".into()),
            status: 302,
            ..Redirect::default()
        });
        assert!(filters(&[redirect]).is_err());
    }

    #[test]
    fn origins_have_one_star_at_most() {
        let origins = |origin: &str| {
            effect(&Effect::Cors(Cors {
                allow_origins: vec![origin.into()],
                ..Cors::default()
            }))
        };
        assert_eq!(origins("https://*.a.example"), Ok(()));
        assert!(origins("https://*.*").is_err());
        assert!(origins("https://a b").is_err());
    }
}
