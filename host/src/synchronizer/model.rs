//! What is to be served, resolved and in order, but not yet Envoy's words.
//!
//! Assembly (references, precedence, conflicts) produces these; [`super::envoy`] encodes them. All
//! decisions are made before; encoding is a pure function of one of these values.

use chiton_ir::policy::Effect;
use chiton_ir::route::{Filter, Match, Timeouts};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// One Envoy listener: an address and port with all that is served there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Resource name, for example `http-8080`.
    pub name: String,
    /// Address to bind.
    pub address: IpAddr,
    /// Port to bind.
    pub port: u16,
    /// What is spoken there.
    pub kind: ListenerKind,
    /// Whether to write an access log.
    pub access_log: bool,
}

/// What an Envoy listener speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP with one route configuration.
    Http {
        /// Its name.
        route_config: String,
    },
    /// TLS; chains are chosen by SNI. Sorted by name.
    Https(Vec<TlsChain>),
}

/// One filter chain of an HTTPS listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsChain {
    /// Name of the route configuration, which is also the chain's name.
    pub route_config: String,
    /// SNI names it takes (`a.example`, `*.a.example`); empty: every other.
    pub server_names: Vec<String>,
    /// SDS resource names of its certificates.
    pub secrets: Vec<String>,
}

/// One route configuration. Its virtual hosts come by VHDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Resource name.
    pub name: String,
    /// Effects on everything in it. `respond` has no place here: it goes to the virtual hosts.
    pub effects: Effects,
}

/// One virtual host: everything for one hostname of one route configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualHost {
    /// Name of the route configuration.
    pub route_config: String,
    /// Hostname (`a.example`, `*.a.example` or `*`). The resource name is
    /// `<route configuration>/<hostname>`.
    pub hostname: String,
    /// The port that clients see, for redirects that keep it.
    pub listener_port: u16,
    /// Whether clients come by TLS.
    pub tls: bool,
    /// Effects on everything in it; only where the route configuration cannot hold them.
    pub effects: Effects,
    /// Routes in the order in which they are tried.
    pub routes: Vec<Arc<RouteEntry>>,
}

/// Effects that won at one place, by effect name. Settled: nothing below may be merged into them.
pub type Effects = BTreeMap<&'static str, PlacedEffect>;

/// An effect that won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEffect {
    /// The effect.
    pub effect: Arc<Effect>,
    /// Identity of the policy's target, for what is kept per target (rate-limit buckets):
    /// `<kind>_<namespace>_<name>[_<section>]`.
    pub bucket: String,
    /// For `apiKey`: the keys, resolved. `None`: a Secret could not be followed, so nobody is let in.
    pub keys: Option<Arc<Vec<Credential>>>,
}

/// One API key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credential {
    /// Client, the entry's name in the Secret.
    pub client: String,
    /// The key itself.
    pub key: String,
}

/// Keys are never printed.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// One match of one rule of one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// Stable name for statistics and logs: `<namespace>/<route>[/<rule name>]`.
    pub name: String,
    /// API prefix (`/orders/v1`; empty: none). It comes before the match's path, is stripped before
    /// any rewrite, and is put back into redirects.
    pub prefix: String,
    /// A header that must be there too (`Some((name, value, true))`), or must not have this value
    /// (`false`): sandbox and production.
    pub environment: Option<(String, String, bool)>,
    /// The match.
    pub matches: Match,
    /// Filters of the rule. Mirrors are in `mirrors`.
    pub filters: Vec<Filter>,
    /// Resolved mirrors: cluster and fraction.
    pub mirrors: Vec<(String, Option<(u32, u32)>)>,
    /// What happens.
    pub action: Action,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Effects on this entry that differ from those of its virtual host and route configuration.
    pub effects: Effects,
    /// Effect names that a wider place has and that must not hold here (something more specific,
    /// of another filter instance, replaced them).
    pub without: Vec<&'static str>,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To backends by weight.
    Forward {
        /// Resolved backends with weights above 0; at least one.
        clusters: Vec<WeightedCluster>,
        /// Share of requests, in the same unit as the weights, answered with 500 because their
        /// backend could not be resolved.
        broken: u64,
    },
    /// A fixed answer.
    Respond {
        /// Status.
        status: u16,
        /// Body.
        body: String,
    },
    /// The redirect among the filters.
    Redirect,
}

/// A backend with its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedCluster {
    /// Cluster name.
    pub cluster: String,
    /// Weight, above 0.
    pub weight: u32,
    /// Header filters of this backend.
    pub filters: Vec<Filter>,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Resource name: `service_<namespace>_<name>_<port>` or `backend_<namespace>_<name>`.
    pub name: String,
    /// Where its endpoints come from.
    pub endpoints: ClusterEndpoints,
    /// Whether the backend speaks HTTP/2 without TLS (`appProtocol: kubernetes.io/h2c`).
    pub h2c: bool,
}

/// Where a cluster's endpoints come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterEndpoints {
    /// EDS, under the cluster's name.
    Discovered,
    /// Fixed addresses.
    Static(Vec<(IpAddr, u16)>),
    /// Names that the proxy looks up.
    Dns(Vec<(String, u16)>),
}

/// The endpoints of a discovered cluster: ready ones, sorted, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSet {
    /// The cluster.
    pub cluster: String,
    /// Address and port.
    pub endpoints: Vec<(IpAddr, u16)>,
}

/// Rate-limit buckets of one route configuration: the filter's own configuration, sent by ECDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Resource name: `rate-limit_<route configuration>`.
    pub name: String,
    /// Buckets by [`PlacedEffect::bucket`].
    pub buckets: BTreeMap<String, chiton_ir::policy::RateLimit>,
    /// The bucket of the route configuration's own `rateLimit` effect, if it has one: it counts for
    /// every route that does not name another.
    pub wide: Option<String>,
}

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsSecret {
    /// Resource name: `secret_<namespace>_<name>`.
    pub name: String,
    /// PEM.
    pub certificate: Vec<u8>,
    /// PEM.
    pub private_key: Vec<u8>,
}

/// Keys are never printed.
impl std::fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSecret")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
