//! Hostnames: which listener a hostname belongs to.
//!
//! A request belongs to the listener with the most specific hostname that covers its own (listener
//! isolation of the Gateway API): an exact name before a wildcard, a longer wildcard before a
//! shorter one, and a listener without hostname last.

use chiton_ir::check::hostname;

/// Whether a listener's hostname (none: every) covers a hostname that a route asks for there.
#[must_use]
pub fn covers(listener: Option<&str>, name: &str) -> bool {
    hostname::covers(listener.unwrap_or("*"), name)
}

/// Orders hostnames of listeners by how specific they are; the greater one is asked first.
#[must_use]
pub fn specificity(hostname: Option<&str>) -> (u8, usize) {
    match hostname {
        None => (0, 0),
        Some(name) if name.starts_with('*') => (1, name.len()),
        Some(name) => (2, name.len()),
    }
}

/// Whether `narrow` is covered by `wide` and more specific.
#[must_use]
pub fn is_within(narrow: &str, wide: Option<&str>) -> bool {
    wide != Some(narrow) && covers(wide, narrow)
}

/// Whether Envoy takes the name as a domain: `*`, a DNS name in lower case, or `*.` and a DNS name.
/// Above all it must not hold a `/`, which separates the parts of a virtual host's resource name.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    name == "*" || hostname::check(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_covers_whole_labels_only() {
        assert!(covers(Some("*.example.com"), "a.example.com"));
        assert!(covers(Some("*.example.com"), "a.b.example.com"));
        assert!(covers(Some("*.example.com"), "*.b.example.com"));
        assert!(covers(Some("*.example.com"), "*.example.com"));
        assert!(!covers(Some("*.example.com"), "example.com"));
        assert!(!covers(Some("*.example.com"), "badexample.com"));
        assert!(!covers(Some("*.b.example.com"), "*.example.com"));
        assert!(!covers(Some("a.example.com"), "*"));
        assert!(covers(None, "*"));
    }

    #[test]
    fn exact_names_are_more_specific_than_wildcards() {
        let mut names = [
            Some("*.example.com"),
            None,
            Some("a.b"),
            Some("*.a.example.com"),
        ];
        names.sort_by_key(|name| std::cmp::Reverse(specificity(*name)));
        assert_eq!(
            names,
            [
                Some("a.b"),
                Some("*.a.example.com"),
                Some("*.example.com"),
                None
            ]
        );
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        for good in ["*", "a", "*.a.b", "a-b.c1"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "*.", "a/b", "a..b", "A", "a\0", "ä.b", "*a", "a:80"] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
