//! `RequestRedirect` as Envoy's redirect.
//!
//! The port (Gateway API, `HTTPRequestRedirectFilter.port`): the filter's; else the scheme's own if
//! the filter names a scheme; else the listener's. A scheme's own port is not written. Envoy keeps
//! a port that the request names in its `Host` unless it is given a host or another port; so where
//! no port is to be written, the host is given if it is known, and where it is not (a wildcard),
//! requests that name a port get a route of their own, which writes the scheme's port.

use super::pb::envoy::config::route::v3 as route;
use super::rewrite::{self, PathRewrite, RedirectPath};
use crate::synchronizer::model::{RouteEntry, VirtualHost};
use chiton_ir::route::Redirect;
use route::redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier};

/// A redirect, and the one for requests that name a port, where it is another.
#[derive(Debug)]
pub struct Redirects {
    pub plain: route::RedirectAction,
    pub with_port: Option<route::RedirectAction>,
}

/// The redirects of an entry.
pub fn redirects(host: &VirtualHost, entry: &RouteEntry, filter: &Redirect) -> Redirects {
    let own = if host.tls { "https" } else { "http" };
    let scheme = filter.scheme.as_deref().unwrap_or(own);
    let port = filter.port.unwrap_or(match &filter.scheme {
        Some(scheme) if scheme == "https" => 443,
        Some(_) => 80,
        None => host.listener_port,
    });
    let written = (scheme, port) != ("http", 80) && (scheme, port) != ("https", 443);
    let known = filter
        .hostname
        .clone()
        .or_else(|| (!host.hostname.starts_with('*')).then(|| host.hostname.clone()));
    let plain = route::RedirectAction {
        scheme_rewrite_specifier: filter
            .scheme
            .clone()
            .map(SchemeRewriteSpecifier::SchemeRedirect),
        host_redirect: known.clone().unwrap_or_default(),
        port_redirect: if written { port.into() } else { 0 },
        path_rewrite_specifier: path(entry, filter),
        response_code: status(filter.status).into(),
        strip_query: false,
    };
    let with_port = (!written && known.is_none()).then(|| route::RedirectAction {
        port_redirect: port.into(),
        ..plain.clone()
    });
    Redirects { plain, with_port }
}

fn path(entry: &RouteEntry, filter: &Redirect) -> Option<PathRewriteSpecifier> {
    let change = filter.path.as_ref()?;
    let path = rewrite::redirect(&entry.prefix, &entry.matches.path, change)?;
    Some(match path {
        RedirectPath::Full(path) => PathRewriteSpecifier::PathRedirect(path),
        RedirectPath::Rewrite(PathRewrite::Prefix(prefix)) => {
            PathRewriteSpecifier::PrefixRewrite(prefix)
        }
        RedirectPath::Rewrite(PathRewrite::Regex(regex)) => {
            PathRewriteSpecifier::RegexRewrite(regex)
        }
    })
}

fn status(status: u16) -> RedirectResponseCode {
    match status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    }
}
