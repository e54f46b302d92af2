//! Checks of header names and values that Envoy, or HTTP itself, would refuse.

use chiton_ir::route::HeaderChange;

/// Longest header name, as in the Gateway API's `HTTPHeaderName`.
const MAX_NAME: usize = 256;

/// Longest header value, as in the Gateway API's `HTTPHeader`.
const MAX_VALUE: usize = 4096;

/// Checks a header name: a token of RFC 9110 section 5.6.2, 1 to 256 characters.
pub fn check_name(name: &str) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME {
        Err(format!(
            "a header name has 1 to {MAX_NAME} characters, {name:?} has {}",
            name.len()
        ))
    } else if name.bytes().all(token) {
        Ok(())
    } else {
        Err(format!(
            "{name:?} is not a header name: use letters, digits and !#$%&'*+-.^_`|~"
        ))
    }
}

/// Checks a header value: no CR, LF or NUL (RFC 9110 section 5.5; Envoy refuses them), at most
/// 4,096 bytes.
pub fn check_value(name: &str, value: &str) -> Result<(), String> {
    if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        Err(format!(
            "the value of header {name} contains CR, LF or NUL: remove it"
        ))
    } else if value.len() > MAX_VALUE {
        Err(format!(
            "the value of header {name} has {} bytes: at most {MAX_VALUE} are allowed",
            value.len()
        ))
    } else {
        Ok(())
    }
}

/// Checks that a header may be changed: Envoy refuses a configuration that sets, adds or removes
/// `host` or a pseudo header (`:authority`, `:path`, …). To change the host use a rewrite.
pub fn check_modifiable(name: &str) -> Result<(), String> {
    if name.starts_with(':') || name.eq_ignore_ascii_case("host") {
        return Err(format!(
            "header {name} cannot be changed here: for the host or the path use a URL rewrite"
        ));
    }
    check_name(name)
}

/// Checks all of a change: names, values, and that no name is set, added or removed twice (names
/// are compared without case).
pub fn check_change(change: &HeaderChange) -> Result<(), String> {
    for header in change.set.iter().chain(&change.add) {
        check_modifiable(&header.name)?;
        check_value(&header.name, &header.value)?;
    }
    for name in &change.remove {
        check_modifiable(name)?;
    }
    check_once("set", change.set.iter().map(|header| &header.name))?;
    check_once("add", change.add.iter().map(|header| &header.name))?;
    check_once("remove", change.remove.iter())
}

fn check_once<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut names: Vec<String> = names.map(|name| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [name, next] = pair
            && name == next
        {
            return Err(format!(
                "header {name} is named twice under {what}: name it once"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use chiton_ir::route::Header;

    #[test]
    fn names_are_tokens() {
        assert!(check_name("x-a_b.c~1").is_ok());
        for name in ["", "a b", "a:b", "ä", "a\0", "a\r\n", &"a".repeat(257)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn values_cannot_split_a_message() {
        assert!(check_value("a", "täglich, \"x\"").is_ok());
        for value in ["a\r\nb: c", "a\n", "\0", &"a".repeat(4097)] {
            assert!(check_value("a", value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn host_and_pseudo_headers_stay() {
        assert!(check_modifiable("x-host").is_ok());
        for name in ["host", "Host", ":authority", ":path"] {
            assert!(check_modifiable(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_change_names_a_header_once_in_each_part() {
        let header = |name: &str| Header {
            name: name.into(),
            value: "v".into(),
        };
        let mut change = HeaderChange {
            set: vec![header("x-a")],
            add: vec![header("x-a")],
            remove: vec!["x-a".into()],
        };
        assert_eq!(check_change(&change), Ok(()));
        change.set.push(header("X-A"));
        let error = check_change(&change).expect_err("named twice");
        assert!(
            error.starts_with("header x-a is named twice under set"),
            "{error}"
        );
        change.set.clear();
        change.remove.push("Host".into());
        assert!(check_change(&change).is_err());
    }
}
