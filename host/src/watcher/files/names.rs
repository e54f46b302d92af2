//! Rules for names of objects.

use super::problem::printable;

/// Longest DNS subdomain (RFC 1123).
const MAX_SUBDOMAIN: usize = 253;
/// Longest DNS label (RFC 1123).
const MAX_LABEL: usize = 63;

/// Why `name` is not a DNS subdomain as the API server wants it, if so.
pub(super) fn subdomain_fault(name: &str) -> Option<String> {
    if name.len() > MAX_SUBDOMAIN {
        return Some(format!(
            "is longer than {MAX_SUBDOMAIN} characters; choose a shorter one"
        ));
    }
    name.split('.').find_map(label_characters_fault)
}

/// Why `name` is not a DNS label, if so.
pub(super) fn label_fault(name: &str) -> Option<String> {
    if name.len() > MAX_LABEL {
        return Some(format!(
            "is longer than {MAX_LABEL} characters; choose a shorter one"
        ));
    }
    label_characters_fault(name)
}

/// Why `name` cannot be the name of any object, if so: it must be able to stand in a URL's path.
pub(super) fn path_segment_fault(name: &str) -> Option<String> {
    if name.len() > MAX_SUBDOMAIN {
        return Some(format!(
            "is longer than {MAX_SUBDOMAIN} characters; choose a shorter one"
        ));
    }
    if matches!(name, "." | "..") {
        return Some("may not be . or ..; choose another".to_owned());
    }
    name.chars()
        .find(|c| matches!(c, '/' | '%') || c.is_control() || !c.is_ascii())
        .map(character_fault)
}

fn label_characters_fault(label: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if let Some(wrong) = label.chars().find(|c| !allowed(*c)) {
        return Some(character_fault(wrong));
    }
    if label.is_empty() || label.starts_with('-') || label.ends_with('-') {
        return Some(
            "must begin and end, also around each dot, with a lower case letter or a digit"
                .to_owned(),
        );
    }
    None
}

fn character_fault(wrong: char) -> String {
    let shown = printable(&wrong.to_string());
    format!(
        "has the character '{shown}' (U+{:04X}); use lower case letters a-z, digits, '-' and '.'",
        u32::from(wrong)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn subdomains() {
        for good in ["a", "a.b", "a-b.c1", &"a".repeat(253)] {
            assert_eq!(subdomain_fault(good), None, "{good}");
        }
        let long = "a".repeat(254);
        for bad in [
            "", "a..b", "-a", "a-", "A", "a_b", "ä", "a\0b", "a/b", &long,
        ] {
            assert!(subdomain_fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn labels_have_no_dots_and_63_characters() {
        assert_eq!(label_fault(&"a".repeat(63)), None);
        assert!(label_fault(&"a".repeat(64)).is_some());
        assert!(label_fault("a.b").is_some());
    }

    #[test]
    fn other_kinds_take_what_a_path_can_hold() {
        assert_eq!(path_segment_fault("system:Node_1"), None);
        for bad in ["..", "a/b", "a%", "a\0", "ü"] {
            assert!(path_segment_fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn a_control_character_is_named_but_not_printed() {
        let fault = subdomain_fault("a\0b").expect("a fault");
        assert!(fault.contains("U+0000"), "{fault}");
        assert!(!fault.contains('\0'), "{fault}");
    }
}
