//! Virtual hosts: the routes of one hostname.
//!
//! VHDS works only if a virtual host's name is its resource name, `<route configuration>/<key>`,
//! with no slash in the key; else removals are acknowledged and ignored.

use super::effects::{Place, bucket, per_filter, switched_off};
use super::headers;
use super::pb::envoy::config::route::v3 as route;
use super::redirect::redirects;
use super::route_action::{filters_of_backends, forward, respond};
use super::route_match::{names_a_port, preflight_match, route_match};
use super::wire::{AnyMap, append_map, append_message, resource};
use crate::synchronizer::model::{Action, Effects, RouteEntry, VirtualHost};
use chiton_ir::policy::{Effect, Respond};
use chiton_ir::route::{Filter, Match, Timeouts};
use chiton_xds::{Resource, ResourceType};
use prost::Message;
use route::route::Action as RouteAction;

/// Hostname of the virtual host that every route configuration has from the start: a listener whose
/// route configuration has none refuses connections. `.invalid` never resolves (RFC 6761).
pub const INERT_HOSTNAME: &str = "chiton.invalid";

/// Field numbers of `VirtualHost` and `Route`.
const HOST_ROUTES: u32 = 3;
const HOST_PER_FILTER: u32 = 15;
const ROUTE_PER_FILTER: u32 = 13;

/// A virtual host with its routes.
#[must_use]
pub fn virtual_host(host: &VirtualHost) -> Resource {
    let name = format!("{}/{}", host.route_config, host.hostname);
    let mut body = route::VirtualHost {
        name: name.clone(),
        domains: vec![host.hostname.clone()],
        ..Default::default()
    }
    .encode_to_vec();
    for route in routes(host) {
        append_message(&mut body, HOST_ROUTES, &route);
    }
    let settings = per_filter(&host.effects, Place::Wide, &host.route_config);
    append_map(&mut body, HOST_PER_FILTER, &settings);
    resource(ResourceType::VirtualHost, &name, body)
}

/// The virtual host without routes: see [`INERT_HOSTNAME`].
#[must_use]
pub fn inert_virtual_host(route_config: &str) -> Resource {
    virtual_host(&VirtualHost {
        route_config: route_config.to_owned(),
        hostname: INERT_HOSTNAME.to_owned(),
        listener_port: 0,
        tls: false,
        effects: Effects::new(),
        routes: Vec::new(),
    })
}

fn routes(host: &VirtualHost) -> Vec<Vec<u8>> {
    let mut routes: Vec<_> = host
        .routes
        .iter()
        .flat_map(|entry| routes_of(host, entry))
        .collect();
    // Who says that a hostname is answered with a status means unknown paths too.
    if let Some(answer) = host.effects.get("respond").and_then(fixed) {
        let everything = RouteEntry {
            name: format!("{}/respond", host.hostname),
            ..nowhere()
        };
        let action = respond(answer.status, &answer.body);
        routes.push(encode(host, &everything, route_match(&everything), action));
    }
    routes
}

/// An entry that takes everything to nowhere.
fn nowhere() -> RouteEntry {
    RouteEntry {
        name: String::new(),
        prefix: String::new(),
        environment: None,
        matches: Match::default(),
        filters: Vec::new(),
        mirrors: Vec::new(),
        action: Action::Forward {
            clusters: Vec::new(),
            broken: 1,
        },
        timeouts: Timeouts::default(),
        effects: Effects::new(),
        without: Vec::new(),
    }
}

/// One entry is mostly one route; see [`super::redirect`] and [`preflights`].
fn routes_of(host: &VirtualHost, entry: &RouteEntry) -> Vec<Vec<u8>> {
    let matched = route_match(entry);
    let mut routes = Vec::with_capacity(1);
    match (answer(host, entry), &entry.action) {
        (Some(answer), _) => {
            let action = respond(answer.status, &answer.body);
            routes.push(encode(host, entry, matched, action));
        }
        (None, Action::Respond { status, body }) => {
            routes.push(encode(host, entry, matched, respond(*status, body)));
        }
        (None, Action::Forward { clusters, broken }) => {
            let action = forward(entry, clusters, *broken);
            routes.push(encode(host, entry, matched, action));
        }
        (None, Action::Redirect) => routes.extend(redirecting(host, entry, matched)),
    }
    if preflights(host, entry) {
        // The CORS filter answers, but only on routes that forward; nothing is left to forward.
        let action = forward(&nowhere(), &[], 1);
        routes.push(encode(host, entry, preflight_match(entry), action));
    }
    routes
}

fn redirecting(host: &VirtualHost, entry: &RouteEntry, matched: route::RouteMatch) -> Vec<Vec<u8>> {
    let filter = entry.filters.iter().find_map(|filter| match filter {
        Filter::Redirect(redirect) => Some(redirect),
        _ => None,
    });
    let Some(filter) = filter else {
        return vec![encode(host, entry, matched, respond(500, ""))];
    };
    let found = redirects(host, entry, filter);
    let mut routes = Vec::with_capacity(2);
    if let Some(action) = found.with_port {
        let mut matched = matched.clone();
        matched.headers.push(names_a_port());
        routes.push(encode(host, entry, matched, RouteAction::Redirect(action)));
    }
    let action = RouteAction::Redirect(found.plain);
    routes.push(encode(host, entry, matched, action));
    routes
}

/// Whether preflights of the entry's requests need a route of their own: a CORS policy holds, and
/// the entry wants a method or headers, which a preflight does not have.
fn preflights(host: &VirtualHost, entry: &RouteEntry) -> bool {
    misses_preflights(entry) && holds(host, entry, "cors")
}

/// Whether an entry wants a method or headers that a preflight of its requests does not have. A
/// CORS policy of the whole route configuration must be repeated on such an entry.
#[must_use]
pub fn misses_preflights(entry: &RouteEntry) -> bool {
    entry
        .matches
        .method
        .as_deref()
        .is_some_and(|m| m != "OPTIONS")
        || !entry.matches.headers.is_empty()
        || matches!(entry.environment, Some((_, _, true)))
}

/// Whether an effect of the entry or of the virtual host holds for the entry.
fn holds(host: &VirtualHost, entry: &RouteEntry, effect: &str) -> bool {
    entry.effects.contains_key(effect)
        || (host.effects.contains_key(effect) && !entry.without.contains(&effect))
}

/// The fixed answer that a policy gives, if one does.
fn answer<'a>(host: &'a VirtualHost, entry: &'a RouteEntry) -> Option<&'a Respond> {
    let own = entry.effects.get("respond");
    let wide = || {
        let wide = host.effects.get("respond")?;
        (!entry.without.contains(&"respond")).then_some(wide)
    };
    own.or_else(wide).and_then(fixed)
}

fn fixed(placed: &crate::synchronizer::model::PlacedEffect) -> Option<&Respond> {
    match &*placed.effect {
        Effect::Respond(answer) => Some(answer),
        _ => None,
    }
}

fn encode(
    host: &VirtualHost,
    entry: &RouteEntry,
    matched: route::RouteMatch,
    action: RouteAction,
) -> Vec<u8> {
    let (request, response) = if filters_of_backends(&entry.action) {
        Default::default()
    } else {
        headers::native([&entry.filters])
    };
    // A limit of the virtual host's is found by the bucket's name on each of its routes.
    let limit = entry.effects.get("rateLimit").or_else(|| {
        let wide = host.effects.get("rateLimit")?;
        (!entry.without.contains(&"rateLimit")).then_some(wide)
    });
    let route = route::Route {
        name: entry.name.clone(),
        r#match: Some(matched),
        action: Some(action),
        metadata: limit.map(|placed| bucket(&placed.bucket)),
        request_headers_to_add: request.add,
        request_headers_to_remove: request.remove,
        response_headers_to_add: response.add,
        response_headers_to_remove: response.remove,
        ..Default::default()
    };
    let mut body = route.encode_to_vec();
    append_map(&mut body, ROUTE_PER_FILTER, &settings(host, entry));
    body
}

fn settings(host: &VirtualHost, entry: &RouteEntry) -> AnyMap {
    let mut settings = switched_off(&entry.without, &host.route_config);
    settings.extend(per_filter(&entry.effects, Place::Route, &host.route_config));
    settings
}
