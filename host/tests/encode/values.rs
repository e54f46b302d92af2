//! Model values in few words.

use crate::backend::Backend;
use crate::gateway::RC;
use chiton::synchronizer::{envoy, model};
use chiton_ir::policy::Effect;
use chiton_ir::route::{
    Filter, Header, HeaderChange, Match, PathChange, PathMatch, Redirect, Rewrite, Timeouts,
};
use chiton_xds::Resource;
use std::sync::Arc;

pub fn host(hostname: &str, routes: Vec<model::RouteEntry>) -> model::VirtualHost {
    model::VirtualHost {
        route_config: RC.into(),
        hostname: hostname.into(),
        listener_port: 80,
        tls: false,
        effects: model::Effects::new(),
        routes: routes.into_iter().map(Arc::new).collect(),
    }
}

/// Everything to cluster `a`.
pub fn entry() -> model::RouteEntry {
    model::RouteEntry {
        name: "default/route".into(),
        prefix: String::new(),
        environment: None,
        matches: Match::default(),
        filters: Vec::new(),
        mirrors: Vec::new(),
        action: to("a"),
        timeouts: Timeouts::default(),
        effects: model::Effects::new(),
        without: Vec::new(),
    }
}

/// As [`entry`], under a path.
pub fn at(path: PathMatch) -> model::RouteEntry {
    let mut found = entry();
    found.matches.path = path;
    found
}

/// As [`at`], under an API.
pub fn under(prefix: &str, path: PathMatch) -> model::RouteEntry {
    model::RouteEntry {
        prefix: prefix.into(),
        ..at(path)
    }
}

pub fn exact(path: &str) -> PathMatch {
    PathMatch::Exact(path.into())
}

pub fn prefix(path: &str) -> PathMatch {
    PathMatch::Prefix(path.into())
}

pub fn regex(path: &str) -> PathMatch {
    PathMatch::Regex(path.into())
}

pub fn to(cluster: &str) -> model::Action {
    model::Action::Forward {
        clusters: vec![weighted(cluster, 1)],
        broken: 0,
    }
}

pub fn weighted(cluster: &str, weight: u32) -> model::WeightedCluster {
    model::WeightedCluster {
        cluster: cluster.into(),
        weight,
        filters: Vec::new(),
    }
}

pub fn answer(status: u16, body: &str) -> model::Action {
    model::Action::Respond {
        status,
        body: body.into(),
    }
}

pub fn rewrite(path: PathChange) -> Filter {
    Filter::Rewrite(Rewrite {
        hostname: None,
        path: Some(path),
    })
}

/// An entry that redirects.
pub fn redirecting(mut found: model::RouteEntry, redirect: Redirect) -> model::RouteEntry {
    found.action = model::Action::Redirect;
    found.filters = vec![Filter::Redirect(redirect)];
    found
}

pub fn found() -> Redirect {
    Redirect {
        status: 302,
        ..Redirect::default()
    }
}

pub fn set(name: &str, value: &str) -> HeaderChange {
    HeaderChange {
        set: vec![header(name, value)],
        ..HeaderChange::default()
    }
}

pub fn header(name: &str, value: &str) -> Header {
    Header {
        name: name.into(),
        value: value.into(),
    }
}

/// Effects of one place.
pub fn effects(bucket: &str, effects: Vec<Effect>) -> model::Effects {
    effects
        .into_iter()
        .map(|effect| {
            let placed = model::PlacedEffect {
                bucket: bucket.into(),
                keys: None,
                effect: Arc::new(effect),
            };
            (placed.effect.name(), placed)
        })
        .collect()
}

/// A discovered cluster with its endpoints.
pub fn cluster(name: &str, backends: &[&Backend]) -> Vec<Resource> {
    let endpoints = backends
        .iter()
        .map(|backend| (backend.address.ip(), backend.address.port()))
        .collect();
    vec![
        envoy::cluster(&model::Cluster {
            name: name.into(),
            endpoints: model::ClusterEndpoints::Discovered,
            h2c: false,
        }),
        envoy::endpoints(&model::EndpointSet {
            cluster: name.into(),
            endpoints,
        }),
    ]
}
