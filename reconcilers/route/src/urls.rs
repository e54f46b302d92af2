//! Redirects and rewrites: the filters that change a URL.

use crate::fault::{Faults, port};
use crate::filters::Surroundings;
use crate::matches::prefix;
use chiton_guest::ir::check::{hostname, http};
use chiton_guest::ir::route::{Match, PathChange, PathMatch, Redirect, Rewrite};
use gateway_api::apis::standard::httproutes::{
    HttpRouteRulesFiltersRequestRedirect as SpecRedirect,
    HttpRouteRulesFiltersRequestRedirectPathType as RedirectPathType,
    HttpRouteRulesFiltersRequestRedirectScheme as Scheme,
    HttpRouteRulesFiltersUrlRewrite as SpecRewrite,
    HttpRouteRulesFiltersUrlRewritePathType as RewritePathType,
};

/// A redirect.
pub fn redirect(
    at: &str,
    spec: &SpecRedirect,
    around: &Surroundings<'_>,
    faults: &mut Faults,
) -> Option<Redirect> {
    let path = spec.path.as_ref().and_then(|path| {
        let wanted = match path.r#type {
            RedirectPathType::ReplaceFullPath => Replace::Full,
            RedirectPathType::ReplacePrefixMatch => Replace::Prefix,
        };
        let full = path.replace_full_path.as_deref();
        let prefix = path.replace_prefix_match.as_deref();
        path_change(&format!("{at}.path"), wanted, full, prefix, around, faults)
    });
    if let Some(name) = &spec.hostname {
        faults.check(format!("{at}.hostname"), hostname::precise(name));
    }
    let port = match spec.port.map(port).transpose() {
        Ok(port) => port,
        Err(message) => {
            faults.value(format!("{at}.port"), message);
            None
        }
    };
    let Some(status) = redirect_status(spec.status_code.unwrap_or(302)) else {
        faults.value(
            format!("{at}.statusCode"),
            "must be 301, 302, 303, 307 or 308",
        );
        return None;
    };
    Some(Redirect {
        scheme: spec
            .scheme
            .as_ref()
            .map(|scheme| scheme_name(scheme).to_owned()),
        hostname: spec.hostname.clone(),
        port,
        path,
        status,
    })
}

fn redirect_status(code: i64) -> Option<u16> {
    [301, 302, 303, 307, 308]
        .into_iter()
        .find(|status| i64::from(*status) == code)
}

fn scheme_name(scheme: &Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

/// A rewrite.
pub fn rewrite(
    at: &str,
    spec: &SpecRewrite,
    around: &Surroundings<'_>,
    faults: &mut Faults,
) -> Rewrite {
    let path = spec.path.as_ref().and_then(|path| {
        let wanted = match path.r#type {
            RewritePathType::ReplaceFullPath => Replace::Full,
            RewritePathType::ReplacePrefixMatch => Replace::Prefix,
        };
        let full = path.replace_full_path.as_deref();
        let prefix = path.replace_prefix_match.as_deref();
        path_change(&format!("{at}.path"), wanted, full, prefix, around, faults)
    });
    if let Some(name) = &spec.hostname {
        faults.check(format!("{at}.hostname"), hostname::precise(name));
    }
    Rewrite {
        hostname: spec.hostname.clone(),
        path,
    }
}

/// The two ways to replace a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replace {
    Full,
    Prefix,
}

fn path_change(
    at: &str,
    wanted: Replace,
    full: Option<&str>,
    replacement: Option<&str>,
    around: &Surroundings<'_>,
    faults: &mut Faults,
) -> Option<PathChange> {
    let ((Replace::Full, Some(value), None) | (Replace::Prefix, None, Some(value))) =
        (wanted, full, replacement)
    else {
        faults.value(at, "must have the field of its type, and no other");
        return None;
    };
    if wanted == Replace::Prefix {
        let is_prefix = |one: &Match| matches!(one.path, PathMatch::Prefix(_));
        if !around.matches.iter().all(is_prefix) {
            faults.filters(
                at,
                "ReplacePrefixMatch needs matches of type PathPrefix, and no other: use \
                 ReplaceFullPath, or split the rule",
            );
        }
    }
    let verdict = if value.starts_with('/') || (value.is_empty() && wanted == Replace::Prefix) {
        http::new_path(value)
    } else {
        Err("must start with `/`".into())
    };
    faults.check(at, verdict).then(|| match wanted {
        Replace::Full => PathChange::Full(value.to_owned()),
        Replace::Prefix => PathChange::Prefix(prefix(value).to_owned()),
    })
}
