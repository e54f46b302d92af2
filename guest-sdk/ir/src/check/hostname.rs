//! Hostnames as the Gateway API means them: RFC 1123 names, no IP address, and a wildcard only as
//! the whole first label. `*.example.com` covers `a.example.com` and `a.b.example.com`, not
//! `example.com`.

use super::Verdict;
use std::net::Ipv4Addr;

/// The name that documents use for every host.
pub const ANY: &str = "*";

/// Longest name.
const MAX_LENGTH: usize = 253;
/// Longest label (RFC 1123).
const MAX_LABEL: usize = 63;

/// Whether a value is a hostname that may have a wildcard as its first label (`Hostname`).
pub fn check(name: &str) -> Verdict {
    if name == ANY {
        return Err("must not be `*`: leave it out to mean every host".into());
    }
    precise(name.strip_prefix("*.").unwrap_or(name)).map_err(|why| {
        if name.contains('*') && !name.starts_with("*.") {
            "may have `*` only as the whole first label".into()
        } else {
            why
        }
    })
}

/// Whether a value is a hostname without a wildcard (`PreciseHostname`).
pub fn precise(name: &str) -> Verdict {
    if name.is_empty() {
        return Err("must not be empty".into());
    }
    if name.contains(':') || name.parse::<Ipv4Addr>().is_ok() {
        return Err(format!(
            "{name:?} must be a name, without an address or a port"
        ));
    }
    if name.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(format!("{name:?} must be lower case"));
    }
    if !is_subdomain(name) || name.split('.').any(|label| label.len() > MAX_LABEL) {
        return Err(format!(
            "{name:?} is not a hostname (RFC 1123: labels of 1 to {MAX_LABEL} letters, digits and \
             `-`, {MAX_LENGTH} characters at most)"
        ));
    }
    Ok(())
}

/// Whether `pattern` (a hostname, perhaps with a wildcard, or `*`) takes every host that `name`
/// (the same) takes.
#[must_use]
pub fn covers(pattern: &str, name: &str) -> bool {
    if pattern == ANY || pattern == name {
        return true;
    }
    let Some(suffix) = pattern.strip_prefix('*') else {
        return false;
    };
    let rest = name.strip_prefix('*').unwrap_or(name);
    rest.len() > suffix.len() && rest.ends_with(suffix)
}

/// The hosts that both patterns take, as one pattern; none if there are none.
#[must_use]
pub fn intersection<'a>(a: &'a str, b: &'a str) -> Option<&'a str> {
    if covers(a, b) {
        Some(b)
    } else if covers(b, a) {
        Some(a)
    } else {
        None
    }
}

/// A DNS subdomain, as Kubernetes uses it for many names.
pub(super) fn is_subdomain(name: &str) -> bool {
    name.len() <= MAX_LENGTH && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames() {
        let long_label = format!("{}.com", "a".repeat(64));
        let long_name = "a.".repeat(130) + "com";
        for (name, good) in [
            ("example.com", true),
            ("*.example.com", true),
            ("*.com", true),
            ("localhost", true),
            ("xn--bcher-kva.example", true),
            ("1.2.3.x", true),
            ("", false),
            ("*", false),
            ("*.", false),
            ("*a.example.com", false),
            ("a.*.example.com", false),
            ("*.*.example.com", false),
            ("Example.com", false),
            ("example.com.", false),
            (".example.com", false),
            ("a..b", false),
            ("-a.com", false),
            ("a-.com", false),
            ("a_b.com", false),
            ("a b.com", false),
            ("bücher.example", false),
            ("a\0.com", false),
            ("a\n.com", false),
            ("10.0.0.1", false),
            ("::1", false),
            ("example.com:80", false),
            (long_label.as_str(), false),
            (long_name.as_str(), false),
        ] {
            assert_eq!(check(name).is_ok(), good, "{name:?}");
        }
        assert!(precise("*.example.com").is_err());
        assert!(precise("example.com").is_ok());
    }

    #[test]
    fn wildcards_cover_longer_names_only() {
        for (pattern, name, expected) in [
            ("*", "a.com", true),
            ("*", "*.com", true),
            ("*", "*", true),
            ("a.com", "*", false),
            ("a.com", "a.com", true),
            ("a.com", "b.com", false),
            ("*.a.com", "x.a.com", true),
            ("*.a.com", "y.x.a.com", true),
            ("*.a.com", "a.com", false),
            ("*.a.com", "xa.com", false),
            ("*.a.com", "*.a.com", true),
            ("*.a.com", "*.x.a.com", true),
            ("*.x.a.com", "*.a.com", false),
            ("x.a.com", "*.a.com", false),
        ] {
            assert_eq!(covers(pattern, name), expected, "{pattern} covers {name}");
        }
    }

    #[test]
    fn an_intersection_is_the_narrower_of_the_two() {
        for (a, b, expected) in [
            ("*", "*", Some("*")),
            ("*", "a.com", Some("a.com")),
            ("*.a.com", "x.a.com", Some("x.a.com")),
            ("x.a.com", "*.a.com", Some("x.a.com")),
            ("*.a.com", "*.x.a.com", Some("*.x.a.com")),
            ("*.a.com", "a.com", None),
            ("*.a.com", "*.b.com", None),
            ("a.com", "b.com", None),
        ] {
            assert_eq!(intersection(a, b), expected, "{a} and {b}");
        }
    }
}
