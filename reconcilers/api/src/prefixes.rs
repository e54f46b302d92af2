//! The path prefixes of an API.

use chiton_guest::ir::check::http;

/// Longest version: a path element of a readable length.
const MAX_VERSION: usize = 63;

/// The prefixes of an API, the canonical one first: `basePath/version`, or `basePath` alone if it
/// ends with the version already; then the bare `basePath` if this is the default version. Without
/// a slash at the end; the root is the empty string.
pub fn of(base_path: &str, version: &str, is_default: bool) -> Result<Vec<String>, String> {
    http::path(base_path).map_err(|message| format!("spec.basePath: {message}"))?;
    element(version).map_err(|message| format!("spec.version: {message}"))?;
    let base = base_path.trim_end_matches('/');
    let unversioned = base
        .strip_suffix(version)
        .and_then(|rest| rest.strip_suffix('/'));
    let mut prefixes = match unversioned {
        Some(_) => vec![base.to_owned()],
        None => vec![format!("{base}/{version}")],
    };
    if is_default {
        prefixes.push(unversioned.unwrap_or(base).to_owned());
    }
    Ok(prefixes)
}

/// Whether a version can be one element of a path.
fn element(version: &str) -> Result<(), String> {
    if version.is_empty() || version.len() > MAX_VERSION {
        return Err(format!("must have 1 to {MAX_VERSION} characters"));
    }
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    if version == "." || version == ".." || !version.bytes().all(good) {
        return Err(format!(
            "{version:?} must be one element of a path: letters, digits and -._~"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn prefixes() {
        for (base_path, version, is_default, expected) in [
            ("/orders", "v1", false, &["/orders/v1"][..]),
            ("/orders/", "v1", false, &["/orders/v1"]),
            ("/orders", "v1", true, &["/orders/v1", "/orders"]),
            ("/orders/v1", "v1", false, &["/orders/v1"]),
            ("/orders/v1/", "v1", true, &["/orders/v1", "/orders"]),
            ("/ordersv1", "v1", false, &["/ordersv1/v1"]),
            ("/", "v1", false, &["/v1"]),
            ("/", "v1", true, &["/v1", ""]),
            ("/v1", "v1", true, &["/v1", ""]),
            ("/a/b", "2024-01.beta", false, &["/a/b/2024-01.beta"]),
        ] {
            let prefixes = of(base_path, version, is_default);
            let prefixes = prefixes.as_deref();
            assert!(
                matches!(prefixes, Ok(found) if found == expected),
                "{base_path} {version} {is_default}: {prefixes:?}"
            );
        }
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for (base_path, version, field) in [
            ("", "v1", "basePath"),
            ("orders", "v1", "basePath"),
            ("/a//b", "v1", "basePath"),
            ("/a/../b", "v1", "basePath"),
            ("/a b", "v1", "basePath"),
            ("/a?b", "v1", "basePath"),
            ("/ü", "v1", "basePath"),
            ("/a\0", "v1", "basePath"),
            ("/a", "", "version"),
            ("/a", "v1/x", "version"),
            ("/a", "..", "version"),
            ("/a", "v 1", "version"),
            ("/a", "v%31", "version"),
            ("/a", "v\n", "version"),
        ] {
            let refusal = of(base_path, version, false).err().unwrap_or_default();
            assert!(
                refusal.starts_with(&format!("spec.{field}: ")),
                "{base_path:?} {version:?}: {refusal:?}"
            );
        }
    }
}
