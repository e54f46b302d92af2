//! In which order the matches of a virtual host are tried.
//!
//! The Gateway API's order: an exact path, then the longest prefix, then a method, then the number
//! of headers, then the number of query parameters; ties go to the oldest route, then namespace and
//! name, then the order in the route. Regular expressions, whose place the Gateway API leaves open,
//! come after exact paths and before prefixes, the longer expression first. The order is over the
//! full path, the prefix of an API included.

use super::ids::Age;
use chiton_ir::route::{Match, PathMatch};
use std::cmp::Reverse;
use std::sync::Arc;

/// Place of an entry in its virtual host: the smaller one is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    path_kind: u8,
    path_length: Reverse<usize>,
    method: Reverse<bool>,
    headers: Reverse<usize>,
    query: Reverse<usize>,
    route: Arc<Age>,
    position: Position,
}

/// Where an entry stands among the entries of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index of the rule.
    pub rule: usize,
    /// Index of the match in the rule.
    pub alternative: usize,
    /// Production before sandbox.
    pub sandbox: bool,
}

impl Rank {
    /// The rank of a match behind a prefix. `required` is the number of headers that it needs
    /// beside its own.
    #[must_use]
    pub fn new(
        prefix: &str,
        matches: &Match,
        required: usize,
        route: Arc<Age>,
        position: Position,
    ) -> Self {
        let (path_kind, length) = match &matches.path {
            // Two different exact paths never meet: their lengths do not matter.
            PathMatch::Exact(_) => (0, 0),
            PathMatch::Regex(expression) => (1, prefix.len() + expression.len()),
            PathMatch::Prefix(path) => (2, prefix.len() + path.trim_end_matches('/').len()),
        };
        Self {
            path_kind,
            path_length: Reverse(length),
            method: Reverse(matches.method.is_some()),
            headers: Reverse(matches.headers.len() + required),
            query: Reverse(matches.query.len()),
            route,
            position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Key;
    use chiton_ir::route::{StringMatch, ValueMatch};

    fn rank(matches: &Match) -> Rank {
        ranked("", matches, "a")
    }

    fn ranked(prefix: &str, matches: &Match, route: &str) -> Rank {
        let age = Age::of(&Key::new("g", "HTTPRoute", "default", route), None);
        let position = Position {
            rule: 0,
            alternative: 0,
            sandbox: false,
        };
        Rank::new(prefix, matches, 0, Arc::new(age), position)
    }

    fn path(path: PathMatch) -> Match {
        Match {
            path,
            ..Match::default()
        }
    }

    fn values(count: usize) -> Vec<ValueMatch> {
        (0..count)
            .map(|index| ValueMatch {
                name: index.to_string(),
                value: StringMatch::Exact("1".into()),
            })
            .collect()
    }

    #[test]
    fn the_order_is_that_of_the_gateway_api() {
        let exact = path(PathMatch::Exact("/a".into()));
        let regex = path(PathMatch::Regex("/a".into()));
        let long = path(PathMatch::Prefix("/a/b".into()));
        let method = Match {
            method: Some("GET".into()),
            ..path(PathMatch::Prefix("/a".into()))
        };
        let headers = Match {
            headers: values(2),
            ..path(PathMatch::Prefix("/a".into()))
        };
        let header = Match {
            headers: values(1),
            query: values(3),
            ..path(PathMatch::Prefix("/a".into()))
        };
        let query = Match {
            query: values(1),
            ..path(PathMatch::Prefix("/a".into()))
        };
        let plain = path(PathMatch::Prefix("/a".into()));
        let order = [exact, regex, long, method, headers, header, query, plain];
        for pair in order.windows(2) {
            assert!(rank(&pair[0]) < rank(&pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_slash_at_the_end_does_not_make_a_prefix_longer() {
        let plain = ranked("", &path(PathMatch::Prefix("/a".into())), "a");
        let slash = ranked("", &path(PathMatch::Prefix("/a/".into())), "b");
        assert!(plain < slash);
    }

    #[test]
    fn the_prefix_of_an_api_counts() {
        let behind = ranked("/orders/v1", &Match::default(), "b");
        let beside = ranked("", &path(PathMatch::Prefix("/orders".into())), "a");
        assert!(behind < beside);
    }
}
