//! From Gateways to what a fleet's proxies listen on.
//!
//! The listeners of all Gateways of a fleet are laid out together, by address and port. Where two
//! Gateways want what only one can have, the older one gets it (then namespace and name). Nothing
//! here depends on routes.

use super::certificates::{Certificates, INVALID_CERTIFICATE};
use super::claims::{self, Claim, Conflict, Place};
use super::followed::Followed;
use super::grants::Grants;
use super::hostnames::{covers, is_within, specificity};
use super::ids::{Age, ListenerId, RouteConfigId};
use super::model::{self, ListenerKind, TlsChain, TlsSecret};
use super::{Options, conditions};
use crate::store::{Key, Snapshot};
use chiton_ir::gateway::{Gateway, Protocol};
use chiton_ir::{Condition, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Everything that a fleet listens on.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Envoy listeners by name.
    pub listeners: BTreeMap<String, model::Listener>,
    /// Route configurations.
    pub route_configs: BTreeMap<RouteConfigId, Site>,
    /// Where each listener of a Gateway that is served is served: once for each address.
    pub bindings: BTreeMap<ListenerId, Vec<RouteConfigId>>,
    /// Certificates by resource name.
    pub secrets: BTreeMap<String, Arc<TlsSecret>>,
    /// What was found out about the Gateways.
    pub conditions: BTreeMap<Key, Vec<Condition>>,
    /// What was looked at.
    pub followed: BTreeSet<Followed>,
}

/// A route configuration: which listeners of Gateways it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The port that clients see.
    pub port: u16,
    /// Whether clients come by TLS.
    pub tls: bool,
    /// The Envoy listener that it hangs on.
    pub listener: String,
    /// Listeners of Gateways by hostname.
    pub members: BTreeMap<Option<String>, ListenerId>,
    /// Hostnames of members that a less specific member would cover. Each has a virtual host even
    /// without routes, because its requests must not fall through to the other member.
    pub reserved: BTreeSet<String>,
    /// Hostnames that belong to a more specific listener of the same port, which has a route
    /// configuration of its own (TLS). Requests for them came over the wrong connection.
    pub foreign: BTreeSet<String>,
}

impl Site {
    /// The listener that a hostname belongs to, if it belongs to one of this route configuration.
    #[must_use]
    pub fn owner(&self, hostname: &str) -> Option<&ListenerId> {
        let (best, owner) = self
            .members
            .iter()
            .filter(|(member, _)| covers(member.as_deref(), hostname))
            .max_by_key(|(member, _)| specificity(member.as_deref()))?;
        let taken = self.foreign.iter().any(|foreign| {
            covers(Some(foreign), hostname)
                && specificity(Some(foreign)) > specificity(best.as_deref())
        });
        (!taken).then_some(owner)
    }
}

/// One Gateway and its age.
pub struct Tenant<'a> {
    /// Its age; the older one wins.
    pub age: Age,
    /// What it asks for.
    pub gateway: &'a Gateway,
}

/// What laying out needs.
pub struct Layouter<'a> {
    /// The fleet.
    pub fleet: Arc<str>,
    /// The synchronizer's options.
    pub options: &'a Options,
    /// Inputs.
    pub inputs: &'a Snapshot,
    /// Grants.
    pub grants: &'a Grants,
    /// Verdicts on certificates.
    pub certificates: &'a mut Certificates,
}

impl Layouter<'_> {
    /// Lays out the Gateways of the fleet.
    pub fn lay_out(&mut self, mut tenants: Vec<Tenant<'_>>) -> Layout {
        tenants.sort_by(|a, b| a.age.cmp(&b.age));
        let mut layout = Layout::default();
        let mut claims: BTreeMap<Place, Vec<Claim<'_>>> = BTreeMap::new();
        for tenant in &tenants {
            self.claim(tenant, &mut claims, &mut layout);
        }
        for (place, claims) in claims {
            let (claims, lost) = claims::arbitrate(claims);
            for (loser, conflict) in lost {
                refuse(&mut layout, &loser, conflict);
            }
            match claims.first().map(|claim| claim.listener.protocol) {
                Some(Protocol::Http) => self.serve_http(&place, &claims, &mut layout),
                Some(Protocol::Https) => self.serve_https(&place, &claims, &mut layout),
                None => {}
            }
        }
        layout
    }

    fn claim<'a>(
        &self,
        tenant: &Tenant<'a>,
        claims: &mut BTreeMap<Place, Vec<Claim<'a>>>,
        layout: &mut Layout,
    ) {
        let gateway = tenant.age.key();
        let addresses = self.addresses(gateway, tenant.gateway, layout);
        let mut names = BTreeSet::new();
        for listener in tenant.gateway.listeners.iter().filter(|it| it.accepted) {
            let id = ListenerId {
                gateway: gateway.clone(),
                section: listener.name.as_str().into(),
            };
            if let Err(why) = claims::sound(listener) {
                let fault = Condition::fails(conditions::ACCEPTED, conditions::INVALID, why);
                note(layout, gateway, fault.at(section(&id)));
                continue;
            }
            if !names.insert(&listener.name) {
                continue;
            }
            for (address, suffix) in &addresses {
                let place = Place {
                    address: *address,
                    port: claims::bound_port(listener.port, self.options.low_port_offset),
                    suffix: suffix.clone(),
                };
                let id = id.clone();
                claims
                    .entry(place)
                    .or_default()
                    .push(Claim { id, listener });
            }
        }
    }

    fn addresses(
        &self,
        key: &Key,
        gateway: &Gateway,
        layout: &mut Layout,
    ) -> Vec<(IpAddr, String)> {
        if let Some(address) = self.options.bind_address {
            return vec![(address, String::new())];
        }
        if gateway.addresses.is_empty() {
            return vec![(Ipv4Addr::UNSPECIFIED.into(), String::new())];
        }
        let mut addresses = BTreeSet::new();
        for text in &gateway.addresses {
            match text.parse::<IpAddr>() {
                Ok(address) => drop(addresses.insert(address)),
                Err(_) => note(
                    layout,
                    key,
                    Condition::fails(
                        conditions::ACCEPTED,
                        "UnsupportedAddress",
                        format!("spec.addresses: {text:?} is not an IP address"),
                    ),
                ),
            }
        }
        addresses
            .into_iter()
            .map(|address| match address {
                // As if it asked for none: it must share the port with those that do not.
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => (address, String::new()),
                _ => (address, format!("_{address}")),
            })
            .collect()
    }

    fn serve_http(&self, place: &Place, claims: &[Claim<'_>], layout: &mut Layout) {
        let Some(port) = claims.first().map(|claim| claim.listener.port) else {
            return;
        };
        let name = format!("http-{port}{}", place.suffix);
        let id = self.route_config(&name);
        let members: BTreeMap<_, _> = claims
            .iter()
            .map(|claim| (claim.listener.hostname.clone(), claim.id.clone()))
            .collect();
        let reserved = members
            .keys()
            .flatten()
            .filter(|name| members.keys().any(|wide| is_within(name, wide.as_deref())))
            .cloned()
            .collect();
        for claim in claims {
            bind(layout, &claim.id, &id);
        }
        let site = Site {
            port,
            tls: false,
            listener: name.clone(),
            members,
            reserved,
            foreign: BTreeSet::new(),
        };
        layout.route_configs.insert(id, site);
        let kind = ListenerKind::Http {
            route_config: name.clone(),
        };
        self.listen(place, name, kind, layout);
    }

    fn serve_https(&mut self, place: &Place, claims: &[Claim<'_>], layout: &mut Layout) {
        let Some(port) = claims.first().map(|claim| claim.listener.port) else {
            return;
        };
        let name = format!("https-{port}{}", place.suffix);
        let mut chains = Vec::new();
        for claim in claims {
            let secrets = self.usable_certificates(claim, layout);
            if secrets.is_empty() {
                continue;
            }
            let gateway = &claim.id.gateway;
            let id = self.route_config(&format!(
                "{name}_{}_{}_{}",
                gateway.namespace, gateway.name, claim.id.section
            ));
            let hostname = &claim.listener.hostname;
            let foreign = claims
                .iter()
                .filter_map(|other| other.listener.hostname.as_ref())
                .filter(|other| is_within(other, hostname.as_deref()))
                .cloned()
                .collect();
            chains.push(TlsChain {
                route_config: id.name.to_string(),
                server_names: hostname.iter().cloned().collect(),
                secrets: secrets.iter().map(|secret| secret.name.clone()).collect(),
            });
            for secret in secrets {
                layout.secrets.insert(secret.name.clone(), secret);
            }
            bind(layout, &claim.id, &id);
            let site = Site {
                port,
                tls: true,
                listener: name.clone(),
                members: [(hostname.clone(), claim.id.clone())].into(),
                reserved: BTreeSet::new(),
                foreign,
            };
            layout.route_configs.insert(id, site);
        }
        if !chains.is_empty() {
            chains.sort_by(|a, b| a.route_config.cmp(&b.route_config));
            self.listen(place, name, ListenerKind::Https(chains), layout);
        }
    }

    /// Certificates of a listener that can be used; what is wrong with the others is noted.
    fn usable_certificates(
        &mut self,
        claim: &Claim<'_>,
        layout: &mut Layout,
    ) -> Vec<Arc<TlsSecret>> {
        let gateway = &claim.id.gateway;
        let references = claim.listener.tls.iter().flat_map(|tls| &tls.certificates);
        let mut good: Vec<Arc<TlsSecret>> = Vec::new();
        let mut bad = Vec::new();
        for reference in references {
            let verdict = self.certificates.follow(
                gateway,
                reference,
                self.inputs,
                self.grants,
                &mut layout.followed,
            );
            match verdict {
                Ok(secret) if good.iter().any(|it| it.name == secret.name) => {}
                Ok(secret) => good.push(secret),
                Err(refusal) => bad.push(refusal),
            }
        }
        let (reason, mut message) = match bad.first() {
            Some(first) => (
                first.reason,
                conditions::join(bad.iter().map(|it| &it.message)),
            ),
            None if good.is_empty() => (
                INVALID_CERTIFICATE,
                "the listener names no certificate".to_owned(),
            ),
            None => return good,
        };
        if good.is_empty() {
            message.push_str("; the listener is not served");
        }
        let condition = Condition::fails(conditions::RESOLVED_REFS, reason, message);
        note(layout, gateway, condition.at(section(&claim.id)));
        good
    }

    fn route_config(&self, name: &str) -> RouteConfigId {
        RouteConfigId {
            fleet: self.fleet.clone(),
            name: name.into(),
        }
    }

    fn listen(&self, place: &Place, name: String, kind: ListenerKind, layout: &mut Layout) {
        let listener = model::Listener {
            name: name.clone(),
            address: place.address,
            port: place.port,
            kind,
            access_log: self.options.access_log,
        };
        layout.listeners.insert(name, listener);
    }
}

/// Notes that a listener lost to another one.
fn refuse(layout: &mut Layout, loser: &ListenerId, conflict: Conflict) {
    let Conflict { reason, message } = conflict;
    if reason != claims::PORT_UNAVAILABLE {
        let condition = conditions::warns(conditions::CONFLICTED, reason, message.clone());
        note(layout, &loser.gateway, condition.at(section(loser)));
    }
    let condition = Condition::fails(conditions::ACCEPTED, reason, message);
    note(layout, &loser.gateway, condition.at(section(loser)));
}

fn bind(layout: &mut Layout, listener: &ListenerId, id: &RouteConfigId) {
    layout
        .bindings
        .entry(listener.clone())
        .or_default()
        .push(id.clone());
}

/// Notes a condition, once for each scope and type.
fn note(layout: &mut Layout, gateway: &Key, condition: Condition) {
    let conditions = layout.conditions.entry(gateway.clone()).or_default();
    let known = |it: &Condition| it.scope == condition.scope && it.r#type == condition.r#type;
    if !conditions.iter().any(known) {
        conditions.push(condition);
    }
}

fn section(listener: &ListenerId) -> Scope {
    Scope::Section(listener.section.to_string())
}
