//! What a route matches.

use super::pb::envoy::config::route::v3 as route;
use super::regex::{escape, without_start_anchors};
use super::rewrite::matched_prefix;
use super::wire::{exact, matches, regex};
use crate::synchronizer::model::RouteEntry;
use chiton_ir::route::{PathMatch, StringMatch, ValueMatch};
use route::header_matcher::HeaderMatchSpecifier;
use route::query_parameter_matcher::QueryParameterMatchSpecifier;
use route::route_match::PathSpecifier;

/// The match of an entry.
pub fn route_match(entry: &RouteEntry) -> route::RouteMatch {
    let mut headers: Vec<_> = entry.matches.headers.iter().map(header).collect();
    headers.extend(
        entry
            .matches
            .method
            .as_ref()
            .map(|method| header_is(":method", method)),
    );
    headers.extend(environment(entry));
    route::RouteMatch {
        headers,
        ..place(entry)
    }
}

/// The match of the CORS preflights of an entry's requests: the same place, and the method that is
/// asked for. A browser sends none of the headers that the entry may want.
pub fn preflight_match(entry: &RouteEntry) -> route::RouteMatch {
    let asked = "access-control-request-method";
    let method = match &entry.matches.method {
        Some(method) => header_is(asked, method),
        None => present(asked),
    };
    route::RouteMatch {
        headers: vec![header_is(":method", "OPTIONS"), present("origin"), method],
        ..place(entry)
    }
}

/// A request that names a port in its `Host`.
pub fn names_a_port() -> route::HeaderMatcher {
    route::HeaderMatcher {
        name: ":authority".into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(matches(".*:[0-9]+"))),
        ..Default::default()
    }
}

/// Path and query.
fn place(entry: &RouteEntry) -> route::RouteMatch {
    route::RouteMatch {
        path_specifier: Some(path(&entry.prefix, &entry.matches.path)),
        query_parameters: entry.matches.query.iter().map(query).collect(),
        ..Default::default()
    }
}

fn path(prefix: &str, path: &PathMatch) -> PathSpecifier {
    match path {
        // The root of an API is the API's prefix with or without a slash.
        PathMatch::Exact(path) if path == "/" && !prefix.is_empty() => {
            PathSpecifier::SafeRegex(regex(format!("{}/?", escape(prefix))))
        }
        PathMatch::Exact(path) => PathSpecifier::Path(format!("{prefix}{path}")),
        PathMatch::Prefix(path) => match matched_prefix(prefix, path) {
            root if root.is_empty() => PathSpecifier::Prefix("/".into()),
            matched => PathSpecifier::PathSeparatedPrefix(matched),
        },
        PathMatch::Regex(expression) if prefix.is_empty() => {
            PathSpecifier::SafeRegex(regex(expression))
        }
        PathMatch::Regex(expression) => PathSpecifier::SafeRegex(regex(format!(
            "{}(?:{})",
            escape(prefix),
            without_start_anchors(expression)
        ))),
    }
}

fn header(value: &ValueMatch) -> route::HeaderMatcher {
    let matcher = match &value.value {
        StringMatch::Exact(text) => exact(text),
        StringMatch::Regex(expression) => matches(expression),
    };
    route::HeaderMatcher {
        name: value.name.to_ascii_lowercase(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(matcher)),
        ..Default::default()
    }
}

fn query(value: &ValueMatch) -> route::QueryParameterMatcher {
    let matcher = match &value.value {
        StringMatch::Exact(text) => exact(text),
        StringMatch::Regex(expression) => matches(expression),
    };
    route::QueryParameterMatcher {
        name: value.name.clone(),
        query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(matcher)),
    }
}

fn header_is(name: &str, value: &str) -> route::HeaderMatcher {
    route::HeaderMatcher {
        name: name.into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(exact(value))),
        ..Default::default()
    }
}

fn present(name: &str) -> route::HeaderMatcher {
    route::HeaderMatcher {
        name: name.into(),
        header_match_specifier: Some(HeaderMatchSpecifier::PresentMatch(true)),
        ..Default::default()
    }
}

/// A header that chooses between sandbox and production. Without the header a request is for
/// production; an inverted match takes it only if what is missing counts as empty.
fn environment(entry: &RouteEntry) -> Option<route::HeaderMatcher> {
    let (name, value, wanted) = entry.environment.as_ref()?;
    Some(route::HeaderMatcher {
        invert_match: !wanted,
        treat_missing_header_as_empty: !wanted,
        ..header_is(&name.to_ascii_lowercase(), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_composed_with_the_prefix_of_an_api() {
        let exact = |path: &str| PathMatch::Exact(path.into());
        let prefix = |path: &str| PathMatch::Prefix(path.into());
        let expression = |path: &str| PathMatch::Regex(path.into());
        let separated = |path: &str| PathSpecifier::PathSeparatedPrefix(path.into());

        assert_eq!(path("", &exact("/a")), PathSpecifier::Path("/a".into()));
        assert_eq!(
            path("/v1", &exact("/a")),
            PathSpecifier::Path("/v1/a".into())
        );
        assert_eq!(
            path("/v1.0", &exact("/")),
            PathSpecifier::SafeRegex(regex(r"/v1\.0/?"))
        );
        assert_eq!(path("", &prefix("/")), PathSpecifier::Prefix("/".into()));
        assert_eq!(path("", &prefix("/a/")), separated("/a"));
        assert_eq!(path("/v1", &prefix("/")), separated("/v1"));
        assert_eq!(path("/v1", &prefix("/a")), separated("/v1/a"));
        assert_eq!(
            path("", &expression("^/a$")),
            PathSpecifier::SafeRegex(regex("^/a$"))
        );
        assert_eq!(
            path("/v1", &expression("^/a|/b")),
            PathSpecifier::SafeRegex(regex("/v1(?:/a|/b)"))
        );
    }
}
