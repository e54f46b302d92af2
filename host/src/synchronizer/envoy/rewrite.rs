//! Paths that change: an API's prefix, `URLRewrite`, and the path of a redirect.
//!
//! What a prefix becomes (Gateway API, `HTTPPathModifier.replacePrefixMatch`), with slashes at the
//! end of prefix and replacement cut first:
//!
//! | matched | replacement | `/foo` | `/foo/` | `/foo/bar` | how |
//! | --- | --- | --- | --- | --- | --- |
//! | `/foo` | `/xyz` | `/xyz` | `/xyz/` | `/xyz/bar` | the prefix is replaced |
//! | `/foo` | `/` or empty | `/` | `/` | `/bar` | the prefix and one slash become a slash |
//! | `/` | `/xyz` | `/xyz/foo` | `/xyz/foo/` | `/xyz/foo/bar` | the first slash becomes `/xyz/` |
//! | `/` | `/` or empty | `/foo` | `/foo/` | `/foo/bar` | nothing |
//!
//! Under an API the matched prefix is the API's with the rule's behind it; without a rewrite the
//! API's prefix alone is cut. A redirect's path gets it back.

use super::pb::envoy::r#type::matcher::v3::RegexMatchAndSubstitute;
use super::regex::escape;
use super::wire::regex;
use chiton_ir::route::{PathChange, PathMatch};

/// A change of a path, as Envoy can make it.
#[derive(Clone, Debug, PartialEq)]
pub enum PathRewrite {
    /// What the route matched is replaced.
    Prefix(String),
    /// What the expression finds is replaced.
    Regex(RegexMatchAndSubstitute),
}

/// The path for the backend.
pub fn rewrite(prefix: &str, path: &PathMatch, change: Option<&PathChange>) -> Option<PathRewrite> {
    match (change, path) {
        (Some(PathChange::Full(path)), _) => Some(whole(path)),
        (Some(PathChange::Prefix(replacement)), PathMatch::Prefix(matched)) => {
            replace(&matched_prefix(prefix, matched), cut(replacement))
        }
        _ if prefix.is_empty() => None,
        _ => replace(prefix, ""),
    }
}

/// The path of a redirect: whole, or what is put for the prefix.
pub fn redirect(prefix: &str, path: &PathMatch, change: &PathChange) -> Option<RedirectPath> {
    match (change, path) {
        (PathChange::Full(path), _) => {
            Some(RedirectPath::Full(format!("{prefix}{}", absolute(path))))
        }
        (PathChange::Prefix(replacement), PathMatch::Prefix(matched)) => {
            let replacement = format!("{prefix}{}", cut(replacement));
            replace(&matched_prefix(prefix, matched), &replacement).map(RedirectPath::Rewrite)
        }
        (PathChange::Prefix(_), PathMatch::Exact(_) | PathMatch::Regex(_)) => None,
    }
}

/// Path of a redirect.
#[derive(Clone, Debug, PartialEq)]
pub enum RedirectPath {
    /// The whole path.
    Full(String),
    /// A change of the request's.
    Rewrite(PathRewrite),
}

/// The prefix that a route matches: an API's and a rule's, without a slash at the end; empty for
/// the root.
pub fn matched_prefix(prefix: &str, matched: &str) -> String {
    format!("{prefix}{}", cut(matched))
}

fn replace(matched: &str, replacement: &str) -> Option<PathRewrite> {
    match (matched.is_empty(), replacement.is_empty()) {
        (true, true) => None,
        (true, false) => Some(PathRewrite::Prefix(format!("{replacement}/"))),
        (false, false) => Some(PathRewrite::Prefix(replacement.to_owned())),
        (false, true) => Some(PathRewrite::Regex(substitution(
            &format!("^{}/?", escape(matched)),
            "/",
        ))),
    }
}

fn whole(path: &str) -> PathRewrite {
    PathRewrite::Regex(substitution("^/.*$", &absolute(path)))
}

fn substitution(pattern: &str, replacement: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(regex(pattern)),
        // A backslash would name a group.
        substitution: replacement.replace('\\', "\\\\"),
    }
}

fn cut(path: &str) -> &str {
    path.trim_end_matches('/')
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(path: &str) -> PathMatch {
        PathMatch::Prefix(path.into())
    }

    fn change(path: &str) -> PathChange {
        PathChange::Prefix(path.into())
    }

    fn found(pattern: &str, replacement: &str) -> PathRewrite {
        PathRewrite::Regex(substitution(pattern, replacement))
    }

    #[test]
    fn a_prefix_is_replaced_as_the_gateway_api_says() {
        for slash in ["", "/"] {
            let matched = prefix(&format!("/foo{slash}"));
            assert_eq!(
                rewrite("", &matched, Some(&change(&format!("/xyz{slash}")))),
                Some(PathRewrite::Prefix("/xyz".into()))
            );
            assert_eq!(
                rewrite("", &matched, Some(&change(slash))),
                Some(found("^/foo/?", "/"))
            );
        }
        assert_eq!(
            rewrite("", &prefix("/"), Some(&change("/foo"))),
            Some(PathRewrite::Prefix("/foo/".into()))
        );
        assert_eq!(rewrite("", &prefix("/"), Some(&change("/"))), None);
        assert_eq!(rewrite("", &prefix("/foo"), None), None);
    }

    #[test]
    fn the_prefix_of_an_api_is_cut_before_a_rewrite() {
        let api = "/orders/v1";
        assert_eq!(
            rewrite(api, &PathMatch::Exact("/a".into()), None),
            Some(found("^/orders/v1/?", "/"))
        );
        assert_eq!(
            rewrite(api, &prefix("/a"), Some(&change("/b"))),
            Some(PathRewrite::Prefix("/b".into()))
        );
        assert_eq!(
            rewrite(api, &prefix("/"), Some(&change("/b"))),
            Some(PathRewrite::Prefix("/b".into()))
        );
        assert_eq!(
            rewrite(api, &prefix("/a"), Some(&PathChange::Full("/b\\1".into()))),
            Some(found("^/.*$", "/b\\1"))
        );
    }

    #[test]
    fn a_redirect_gets_the_prefix_of_an_api_back() {
        assert_eq!(
            redirect("/v1", &prefix("/a"), &change("/b")),
            Some(RedirectPath::Rewrite(PathRewrite::Prefix("/v1/b".into())))
        );
        assert_eq!(
            redirect("/v1", &prefix("/a"), &change("/")),
            Some(RedirectPath::Rewrite(PathRewrite::Prefix("/v1".into())))
        );
        assert_eq!(
            redirect("/v1", &prefix("/a"), &PathChange::Full("/b".into())),
            Some(RedirectPath::Full("/v1/b".into()))
        );
    }
}
