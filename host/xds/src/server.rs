//! The server: what its user calls.

use crate::groups::Groups;
use crate::ledger::{Expected, Ledger, Programmed};
use crate::metrics::Metrics;
use crate::session::Limits;
use crate::stream::Service;
use crate::{Change, Resource, ResourceName, ResourceType};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use futures::future::try_join_all;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Router, TcpIncoming};

/// How long clients get to take note of a shutdown.
const GRACE: Duration = Duration::from_secs(3);

/// Bounds of sizes and times. The defaults are good for Envoy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest request, in bytes. A client that reconnects names every resource that it has, with
    /// its version: about 100 bytes each. Default 64 MiB.
    pub max_request_bytes: usize,
    /// Subscribed names of one stream; above it the stream is closed. Default 1,000,000.
    pub max_subscriptions: usize,
    /// About the largest response, in bytes; a single resource that is larger goes alone. gRPC
    /// clients take 4 MiB unless told otherwise. Default 3 MiB.
    pub response_bytes: usize,
    /// As `response_bytes`, for virtual hosts. Only Envoy asks for these; it has no limit, and each
    /// response makes it rebuild a table. Default 32 MiB.
    pub virtual_host_response_bytes: usize,
    /// How long changed listeners and routes wait for clusters to be acknowledged and endpoints to
    /// be sent. Default 1 s.
    pub make_timeout: Duration,
    /// How long a removal waits until what may refer to the removed is acknowledged. Default 3 s.
    pub break_timeout: Duration,
    /// A client from which nothing comes for this time is asked for a sign of life. Default 10 s.
    pub keepalive_interval: Duration,
    /// If it gives none for this time its connection is closed. Default 5 s.
    pub keepalive_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            max_request_bytes: 64 << 20,
            max_subscriptions: limits.subscriptions,
            response_bytes: limits.response_bytes,
            virtual_host_response_bytes: limits.virtual_host_response_bytes,
            make_timeout: limits.make,
            break_timeout: limits.break_after,
            keepalive_interval: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(5),
        }
    }
}

impl Options {
    fn limits(&self) -> Limits {
        Limits {
            response_bytes: self.response_bytes,
            virtual_host_response_bytes: self.virtual_host_response_bytes,
            subscriptions: self.max_subscriptions,
            make: self.make_timeout,
            break_after: self.break_timeout,
            ..Limits::default()
        }
    }
}

/// Where clients connect.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket. Its file is the caller's to remove.
    Unix(UnixListener),
}

/// Why serving ended before it should.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A listener failed.
    #[error("the xDS server cannot serve one of its listeners: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// What streams share with the server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub groups: Groups,
    pub ledger: Ledger,
    pub metrics: Metrics,
    pub limits: Limits,
}

/// An xDS server. A clone is the same server.
#[derive(Clone, Debug)]
pub struct Server {
    options: Arc<Options>,
    shared: Arc<Shared>,
}

impl Server {
    /// A server without resources that says nothing yet to anybody (see [`Server::set_ready`]).
    #[must_use]
    pub fn new(options: Options) -> Self {
        let shared = Shared {
            groups: Groups::default(),
            ledger: Ledger::default(),
            metrics: Metrics::default(),
            limits: options.limits(),
        };
        Self {
            options: Arc::new(options),
            shared: Arc::new(shared),
        }
    }

    /// Changes what the clients of a group (`node.cluster`) should have. All changes become visible
    /// at once. A `Put` of the version that is there already, and a `Remove` of what is not there,
    /// change nothing. The cost is that of the changes, not of what is there.
    pub fn publish(&self, group: &str, changes: Vec<Change>) {
        self.shared.groups.publish(group, changes);
    }

    /// Takes everything from the clients of a group.
    pub fn remove_group(&self, group: &str) {
        self.shared.groups.remove(group);
    }

    /// Ends the silence towards a group. Until then its clients get no answer and keep what they
    /// have: call it when what was published is complete, or it will take from them what is still
    /// missing.
    pub fn set_ready(&self, group: &str) {
        self.shared.groups.set_ready(group);
    }

    /// [`Server::set_ready`] for all groups, also those that nothing was published for: their
    /// clients are told that there is nothing.
    pub fn set_all_ready(&self) {
        self.shared.groups.set_all_ready();
    }

    /// Has a group serve what its clients had before a restart, until [`Server::replace`] or
    /// [`Server::set_ready`] says that the truth is known: but for the withheld types, of which its
    /// clients hear nothing and keep what they have. Types that cannot be restored (secrets) must be
    /// withheld, or they would be taken from the clients. Single resources may be left out: a client
    /// that brings along what it has from an earlier stream hears nothing at all before the truth is
    /// known, since it may have been told of later changes than were saved.
    ///
    /// False, and nothing happens, if the group is ready or was published to already.
    #[must_use]
    pub fn restore(
        &self,
        group: &str,
        resources: Vec<Resource>,
        withheld: &[ResourceType],
    ) -> bool {
        self.shared.groups.restore(group, resources, withheld)
    }

    /// Makes `resources` all that a group has, and the group ready, at once: its clients get the
    /// differences to what was restored or published before, removals included.
    pub fn replace(&self, group: &str, resources: Vec<Resource>) {
        self.shared.groups.replace(group, resources);
    }

    /// [`Server::replace`] for all groups at once, those to come included (as
    /// [`Server::set_all_ready`]). Groups that are not named have nothing.
    pub fn replace_all(&self, groups: BTreeMap<String, Vec<Resource>>) {
        self.shared.groups.replace_all(groups);
    }

    /// Names of the groups that something was published for, sorted.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        self.shared.groups.names()
    }

    /// All that a group has, by type and name: what [`Server::restore`] takes. One consistent state,
    /// bodies shared; nobody waits for it.
    #[must_use]
    pub fn resources(&self, group: &str) -> Vec<Resource> {
        let snapshot = self.shared.groups.current(group);
        snapshot.map_or_else(Vec::new, |snapshot| snapshot.resources().collect())
    }

    /// The version that is published of a resource.
    #[must_use]
    pub fn version(&self, group: &str, name: &ResourceName) -> Option<String> {
        let snapshot = self.shared.groups.current(group)?;
        let entry = snapshot.get(name.kind, &name.name)?;
        Some(entry.version.to_string())
    }

    /// Whether the group's proxies have acknowledged these resources in the form that is published
    /// now. [`Programmed::Pending`] if one of them is not published.
    #[must_use]
    pub fn programmed(&self, group: &str, names: &[ResourceName]) -> Programmed {
        let snapshot = self.shared.groups.current(group).unwrap_or_default();
        let version = |name: &ResourceName| snapshot.get(name.kind, &name.name);
        let expected: Vec<_> = names
            .iter()
            .filter_map(|name| {
                Some(Expected {
                    name: name.clone(),
                    version: version(name)?.version.to_string(),
                })
            })
            .collect();
        match self.shared.ledger.programmed(group, &expected) {
            Programmed::Acked if expected.len() < names.len() => Programmed::Pending,
            programmed => programmed,
        }
    }

    /// Whether there are proxies in a group and all of them have accepted all that is published:
    /// one cheap question instead of [`Server::programmed`] for everything.
    #[must_use]
    pub fn is_settled(&self, group: &str) -> bool {
        let snapshot = self.shared.groups.current(group).unwrap_or_default();
        self.shared.ledger.is_settled(group, snapshot.generation)
    }

    /// What connected proxies have.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Serves until `shutdown`, then ends all streams; clients keep what they have and reconnect.
    /// Fails if a listener does.
    pub async fn serve(
        &self,
        listeners: Vec<Listener>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopped) = watch::channel(false);
        let mut servers = pin!(try_join_all(
            listeners
                .into_iter()
                .map(|listener| self.serve_one(listener, stopped.clone()))
        ));
        tokio::select! {
            result = &mut servers => {
                result?;
                return Ok(());
            }
            () = shutdown => {}
        }
        stop.send_replace(true);
        // A client that does not take note is cut off.
        if let Ok(result) = tokio::time::timeout(GRACE, servers).await {
            result?;
        }
        Ok(())
    }

    async fn serve_one(
        &self,
        listener: Listener,
        stopped: watch::Receiver<bool>,
    ) -> Result<(), ServeError> {
        let router = self.router(stopped.clone());
        let signal = wait_for_stop(stopped);
        match listener {
            Listener::Tcp(listener) => {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                router.serve_with_incoming_shutdown(incoming, signal).await
            }
            Listener::Unix(listener) => {
                let incoming = UnixListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, signal).await
            }
        }?;
        Ok(())
    }

    fn router(&self, stopped: watch::Receiver<bool>) -> Router {
        let service = Service {
            shared: self.shared.clone(),
            stopped,
        };
        // Responses are bounded where they are made; a single resource may be larger.
        let service = AggregatedDiscoveryServiceServer::new(service)
            .max_decoding_message_size(self.options.max_request_bytes)
            .max_encoding_message_size(usize::MAX)
            .accept_compressed(tonic::codec::CompressionEncoding::Gzip);
        tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(self.options.keepalive_interval))
            .http2_keepalive_timeout(Some(self.options.keepalive_timeout))
            .add_service(service)
    }
}

pub(crate) async fn wait_for_stop(mut stopped: watch::Receiver<bool>) {
    // An error: the server that would say so is gone.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
