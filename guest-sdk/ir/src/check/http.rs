//! Header names and values, and paths.

use super::Verdict;

/// Longest header name (Gateway API).
const MAX_NAME: usize = 256;
/// Longest header value (Gateway API).
const MAX_VALUE: usize = 4096;
/// Longest path (Gateway API).
const MAX_PATH: usize = 1024;

/// Whether a value is a header name: a token of RFC 9110. Pseudo headers (`:path`) are not.
pub fn header_name(name: &str) -> Verdict {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(token) {
        return Err(format!(
            "{name:?} is not a header name (1 to {MAX_NAME} letters, digits and !#$%&'*+-.^_`|~)"
        ));
    }
    Ok(())
}

/// Whether a header of this name may be set, added or removed: Envoy refuses `Host`, in any case,
/// and pseudo headers.
pub fn modifiable_header(name: &str) -> Verdict {
    if name.eq_ignore_ascii_case("host") {
        return Err("may not be `host`: a URL rewrite changes the host".into());
    }
    header_name(name)
}

/// Whether a value may stand in a header: no CR, LF, NUL or other control character but the tab.
pub fn header_value(value: &str) -> Verdict {
    if value.is_empty() || value.len() > MAX_VALUE {
        return Err(format!("must have 1 to {MAX_VALUE} characters"));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err("must not have control characters, for example CR, LF or NUL".into());
    }
    Ok(())
}

/// Whether a value may be compared with a path, whole or as a prefix: what the Gateway API's CRD
/// asks for. A path that a proxy normalizes before it matches would never match.
pub fn path(path: &str) -> Verdict {
    if !path.starts_with('/') {
        return Err("must start with `/`".into());
    }
    if path.len() > MAX_PATH {
        return Err(format!("must have at most {MAX_PATH} characters"));
    }
    for part in ["//", "/./", "/../", "%2f", "%2F", "#"] {
        if path.contains(part) {
            return Err(format!("must not contain `{part}`"));
        }
    }
    for end in ["/.", "/.."] {
        if path.ends_with(end) {
            return Err(format!("must not end with `{end}`"));
        }
    }
    path_characters(path)
}

/// Whether a value may become the path of a request or of a redirect: printable ASCII. Longer than
/// 1,024 characters it is refused, as by the Gateway API.
pub fn new_path(path: &str) -> Verdict {
    if path.len() > MAX_PATH {
        return Err(format!("must have at most {MAX_PATH} characters"));
    }
    if !path.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("must have printable ASCII characters only: percent-encode others".into());
    }
    Ok(())
}

/// The characters of a path in RFC 3986: `pchar` and `/`.
fn path_characters(path: &str) -> Verdict {
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let good = match byte {
            b'%' => {
                let hex = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_hexdigit());
                hex(bytes.next()) && hex(bytes.next())
            }
            _ => byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@".contains(&byte),
        };
        if !good {
            return Err(
                "must have only letters, digits, -/._~!$&'()*+,;=:@ and percent-encoded bytes"
                    .into(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_are_tokens() {
        for (name, good) in [
            ("X-Version", true),
            ("authorization", true),
            ("x_y.z~", true),
            ("", false),
            (":path", false),
            ("a b", false),
            ("a:b", false),
            ("a\r\n", false),
            ("ü", false),
            (&"a".repeat(257), false),
        ] {
            assert_eq!(header_name(name).is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn host_may_not_be_modified() {
        for (name, good) in [
            ("host", false),
            ("Host", false),
            (":authority", false),
            ("x-host", true),
        ] {
            assert_eq!(modifiable_header(name).is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn header_values_have_no_line_ends() {
        for (value, good) in [
            ("a", true),
            ("a b\tc; ü", true),
            ("100%", true),
            ("", false),
            ("a\r\nb", false),
            ("a\nb", false),
            ("a\0", false),
            ("\u{7f}", false),
            (&"a".repeat(4097), false),
        ] {
            assert_eq!(header_value(value).is_ok(), good, "{value:?}");
        }
    }

    #[test]
    fn paths() {
        for (value, good) in [
            ("/", true),
            ("/a/b", true),
            ("/a/", true),
            ("/a%20b", true),
            ("/.well-known", true),
            ("/a..b", true),
            ("", false),
            ("a", false),
            ("//", false),
            ("/a//b", false),
            ("/a/./b", false),
            ("/a/../b", false),
            ("/a/.", false),
            ("/a/..", false),
            ("/a%2fb", false),
            ("/a%2Fb", false),
            ("/a%", false),
            ("/a%2", false),
            ("/a%zz", false),
            ("/a#b", false),
            ("/a?b", false),
            ("/a b", false),
            ("/ü", false),
            ("/a\0", false),
            (&format!("/{}", "a".repeat(1024)), false),
        ] {
            assert_eq!(path(value).is_ok(), good, "{value:?}");
        }
    }

    #[test]
    fn new_paths_are_printable() {
        for (value, good) in [
            ("", true),
            ("/a?b=c", true),
            ("/a b", false),
            ("/a\r\n", false),
            ("/ü", false),
        ] {
            assert_eq!(new_path(value).is_ok(), good, "{value:?}");
        }
    }
}
