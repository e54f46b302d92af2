//! Streams: between the network and a [`Session`].

use crate::ResourceType;
use crate::ledger::Proxy;
use crate::server::{Shared, wait_for_stop};
use crate::session::{Feedback, Request as SessionRequest, Response as SessionResponse, Session};
use crate::snapshot::Snapshot;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::google::protobuf::Any;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Responses of a stream that wait for the network. A session has one under way for each type, so
/// this is never the limit but for a client that does not answer for long.
const OUTBOX: usize = 8;

type Outbox = mpsc::Sender<Result<DeltaDiscoveryResponse, Status>>;

/// The gRPC service.
#[derive(Debug)]
pub(crate) struct Service(pub Deltas);

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream = ReceiverStream<Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        _request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented(
            "this server speaks delta xDS only: set `api_type: DELTA_GRPC` in `ads_config`",
        ))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let address = request
            .remote_addr()
            .map_or_else(|| "unix".to_owned(), |address| address.to_string());
        let (outbox, responses) = mpsc::channel(OUTBOX);
        let stream = self.0.clone();
        tokio::spawn(async move { stream.run(request.into_inner(), address, outbox).await });
        Ok(Response::new(ReceiverStream::new(responses)))
    }
}

/// Serves delta streams.
#[derive(Clone, Debug)]
pub(crate) struct Deltas {
    pub shared: Arc<Shared>,
    pub stopped: watch::Receiver<bool>,
}

impl Deltas {
    /// Serves one stream from its first request to its end.
    async fn run(
        self,
        mut requests: Streaming<DeltaDiscoveryRequest>,
        address: String,
        outbox: Outbox,
    ) {
        let first = tokio::select! {
            first = requests.message() => first,
            () = wait_for_stop(self.stopped.clone()) => return,
        };
        let Ok(Some(mut first)) = first else {
            return;
        };
        let node = first.node.take().unwrap_or_default();
        if node.id.is_empty() || node.cluster.is_empty() {
            let status = Status::invalid_argument(
                "the first request must have a node with `id` and `cluster` (the group of resources to serve)",
            );
            let _ = outbox.send(Err(status)).await;
            return;
        }
        let snapshots = self.shared.groups.watch(&node.cluster);
        let session = Session::new(
            self.shared.limits,
            snapshots.borrow().clone(),
            Instant::now(),
        );
        let proxy = Arc::new(Proxy::new(node.id, node.cluster, address, session));
        let group = proxy.group.clone();
        let mut stream = Stream::open(self.shared.clone(), proxy, outbox);
        let end = stream
            .serve(first, &mut requests, snapshots, self.stopped)
            .await;
        if let Err(status) = end {
            stream.end(status).await;
        }
        drop(stream);
        self.shared.groups.release(&group);
    }
}

/// One stream whose client is known. Counted while it lives.
struct Stream {
    shared: Arc<Shared>,
    proxy: Arc<Proxy>,
    outbox: Outbox,
}

impl Stream {
    fn open(shared: Arc<Shared>, proxy: Arc<Proxy>, outbox: Outbox) -> Self {
        shared.metrics.stream_opened();
        shared.ledger.connect(&proxy);
        tracing::info!(group = proxy.group, node = proxy.node, "a proxy connected");
        Self {
            shared,
            proxy,
            outbox,
        }
    }

    /// Until the client leaves (`Ok`) or is to be sent away (`Err`).
    async fn serve(
        &mut self,
        first: DeltaDiscoveryRequest,
        requests: &mut Streaming<DeltaDiscoveryRequest>,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stopped: watch::Receiver<bool>,
    ) -> Result<(), Status> {
        let mut stop = std::pin::pin!(wait_for_stop(stopped));
        self.on_request(first).await?;
        loop {
            let wake = tokio::select! {
                wake = self.send_due() => wake?,
                () = &mut stop => return Err(shutting_down()),
            };
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => self.on_request(request).await?,
                    Ok(None) => return Ok(()),
                    Err(status) => {
                        tracing::debug!(node = self.proxy.node, %status, "a stream broke");
                        return Ok(());
                    }
                },
                changed = snapshots.changed() => match changed {
                    Ok(()) => {
                        let newest = snapshots.borrow_and_update().clone();
                        self.proxy.session().update(newest);
                    }
                    // The group was removed for good: reconnect to the one of the same name.
                    Err(_) => return Err(Status::unavailable("the group is gone: reconnect")),
                },
                () = sleep_until(wake) => {}
                () = &mut stop => return Err(shutting_down()),
            }
        }
    }

    /// Sends what may be sent. Returns when to try again if nothing happens before.
    async fn send_due(&self) -> Result<Option<Instant>, Status> {
        let (responses, wake, newly_synced) = {
            let mut session = self.proxy.session();
            let now = Instant::now();
            let before = session.is_synced();
            let responses = session.poll(now);
            (
                responses,
                session.deadline(now),
                session.is_synced() && !before,
            )
        };
        if newly_synced {
            self.shared.ledger.changed();
        }
        for response in responses {
            let (kind, sent, removed) = (
                response.kind,
                response.resources.len(),
                response.removed.len(),
            );
            tracing::debug!(node = self.proxy.node, %kind, sent, removed, nonce = response.nonce, "sending");
            self.put(encode(response)).await?;
            self.shared.metrics.count_response(kind, sent, removed);
        }
        Ok(wake)
    }

    async fn on_request(&self, request: DeltaDiscoveryRequest) -> Result<(), Status> {
        self.proxy.seen();
        let Some(kind) = ResourceType::from_type_url(&request.type_url) else {
            return self.answer_unknown(request).await;
        };
        let text = request.error_detail.map(|status| status.message);
        let feedback = self.proxy.session().on_request(
            kind,
            SessionRequest {
                subscribe: request.resource_names_subscribe,
                unsubscribe: request.resource_names_unsubscribe,
                initial_versions: request.initial_resource_versions,
                nonce: request.response_nonce,
                error: text.clone(),
            },
        );
        self.on_feedback(kind, &feedback, text.as_deref().unwrap_or_default());
        if feedback.too_many {
            return Err(Status::resource_exhausted(
                "too many subscribed names on one stream",
            ));
        }
        Ok(())
    }

    fn on_feedback(&self, kind: ResourceType, feedback: &Feedback, text: &str) {
        if feedback.rejected {
            self.shared.metrics.count_nack(kind);
            tracing::debug!(
                node = self.proxy.node, %kind, text, culprits = feedback.culprits.len(),
                "a response was rejected"
            );
        }
        for culprit in &feedback.culprits {
            self.shared
                .ledger
                .note_rejection(&self.proxy, kind, culprit, text);
        }
        self.shared.ledger.changed();
    }

    /// A type that is not served: there is nothing of it, and a client should not wait for it.
    async fn answer_unknown(&self, request: DeltaDiscoveryRequest) -> Result<(), Status> {
        if !request.response_nonce.is_empty() {
            return Ok(());
        }
        tracing::debug!(
            node = self.proxy.node,
            type_url = request.type_url,
            "a client asks for a type that is not served"
        );
        self.put(DeltaDiscoveryResponse {
            type_url: request.type_url,
            removed_resources: request.resource_names_subscribe,
            nonce: "none".to_owned(),
            ..DeltaDiscoveryResponse::default()
        })
        .await
    }

    async fn put(&self, response: DeltaDiscoveryResponse) -> Result<(), Status> {
        let gone = |_| Status::cancelled("the client is gone");
        self.outbox.send(Ok(response)).await.map_err(gone)
    }

    /// Tells the client why its stream ends, if it listens.
    async fn end(&self, status: Status) {
        tracing::debug!(node = self.proxy.node, %status, "ending a stream");
        let _ = self.outbox.send(Err(status)).await;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.metrics.stream_closed();
        self.shared.ledger.disconnect(&self.proxy);
        tracing::info!(
            group = self.proxy.group,
            node = self.proxy.node,
            "a proxy disconnected"
        );
    }
}

fn shutting_down() -> Status {
    Status::unavailable("the server is shutting down")
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}

fn encode(response: SessionResponse) -> DeltaDiscoveryResponse {
    let type_url = response.kind.type_url();
    let resources = response
        .resources
        .iter()
        .map(|entry| Resource {
            name: entry.name.to_string(),
            version: entry.version.to_string(),
            resource: Some(Any {
                type_url: type_url.to_owned(),
                value: entry.body.to_vec(),
            }),
            ..Resource::default()
        })
        .collect();
    DeltaDiscoveryResponse {
        system_version_info: response.generation.to_string(),
        resources,
        type_url: type_url.to_owned(),
        removed_resources: response.removed.iter().map(ToString::to_string).collect(),
        nonce: response.nonce,
        ..DeltaDiscoveryResponse::default()
    }
}
