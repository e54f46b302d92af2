//! Checks of single values that reconcilers and the host share.
//!
//! A built-in reconciler checks what people write and says on the object what is wrong. The host
//! repeats the checks that keep a proxy from rejecting its configuration, because a document may
//! come from a module that somebody else wrote. Both must draw the same line, so it is drawn here.
//!
//! Every check returns the predicate of a sentence ("must start with `/`"); the caller puts the
//! path of the field before it.

pub mod hostname;
pub mod http;
pub mod regex;

/// What is wrong with a value: the predicate of a sentence.
pub type Verdict = Result<(), String>;

/// Whether a name may stand as the name of a section: a listener, a rule (`SectionName` in the
/// Gateway API, a DNS subdomain).
pub fn section_name(name: &str) -> Verdict {
    if hostname::is_subdomain(name) {
        Ok(())
    } else {
        Err(format!(
            "{name:?} must be 1 to 253 lower-case letters, digits, `-` and `.`, and start and end \
             with a letter or digit"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_names_are_subdomains() {
        for good in ["a", "http-1", "a.b", "0"] {
            assert_eq!(section_name(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "A",
            "-a",
            "a-",
            "a..b",
            "a/b",
            "ü",
            "a\0",
            &"a".repeat(254),
        ] {
            assert!(section_name(bad).is_err(), "{bad:?}");
        }
    }
}
