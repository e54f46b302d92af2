//! Streams: between the network and a [`Session`].

mod delta;
mod sotw;

use crate::ResourceType;
use crate::ledger::Proxy;
use crate::server::{Shared, wait_for_stop};
use crate::session::{Dialect, Feedback, Response as SessionResponse, Session};
use crate::snapshot::Snapshot;
pub(crate) use delta::Delta;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::protobuf::Any;
use futures::StreamExt;
use futures::stream::BoxStream;
pub(crate) use sotw::StateOfTheWorld;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Responses of a stream that wait for the network. A session has one under way for each type, so
/// this is never the limit but for a client that does not answer for long. They are encoded when the
/// network takes them: what waits shares its bodies with all other streams.
const OUTBOX: usize = 8;

type Responses<P> = BoxStream<'static, Result<<P as Protocol>::Response, Status>>;
type Outbox<P> = mpsc::Sender<Result<Outgoing<P>, Status>>;

/// What differs between delta and state of the world, as far as messages go.
pub(crate) trait Protocol: Send + 'static {
    type Request: Send + 'static;
    type Response: Send + 'static;
    /// How the client is spoken to.
    fn dialect(node: &Node) -> Dialect;
    fn take_node(request: &mut Self::Request) -> Option<Node>;
    fn type_url(request: &Self::Request) -> &str;
    fn tell(session: &mut Session, kind: ResourceType, request: Self::Request) -> Feedback;
    /// The answer to a request for a type that is not served, if there is one.
    fn refuse(request: Self::Request) -> Option<Self::Response>;
    fn encode(response: &SessionResponse) -> Self::Response;
}

/// A response on its way.
enum Outgoing<P: Protocol> {
    Due(SessionResponse),
    Encoded(P::Response),
}

impl<P: Protocol> Outgoing<P> {
    fn encode(self) -> P::Response {
        match self {
            Self::Due(response) => P::encode(&response),
            Self::Encoded(response) => response,
        }
    }
}

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub shared: Arc<Shared>,
    pub stopped: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Responses<StateOfTheWorld>;
    type DeltaAggregatedResourcesStream = Responses<Delta>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Ok(self.open::<StateOfTheWorld>(request))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Ok(self.open::<Delta>(request))
    }
}

impl Service {
    fn open<P: Protocol>(&self, request: Request<Streaming<P::Request>>) -> Response<Responses<P>> {
        let address = request
            .remote_addr()
            .map_or_else(|| "unix".to_owned(), |address| address.to_string());
        let (outbox, responses) = mpsc::channel(OUTBOX);
        let service = self.clone();
        tokio::spawn(async move {
            service
                .run::<P>(request.into_inner(), address, outbox)
                .await;
        });
        let responses = ReceiverStream::new(responses);
        Response::new(
            responses
                .map(|response| response.map(Outgoing::encode))
                .boxed(),
        )
    }

    /// Serves one stream from its first request to its end.
    async fn run<P: Protocol>(
        self,
        mut requests: Streaming<P::Request>,
        address: String,
        outbox: Outbox<P>,
    ) {
        let first = tokio::select! {
            first = requests.message() => first,
            () = wait_for_stop(self.stopped.clone()) => return,
        };
        let Ok(Some(mut first)) = first else {
            return;
        };
        let node = P::take_node(&mut first).unwrap_or_default();
        let dialect = P::dialect(&node);
        let (id, group) = (node.id, node.cluster);
        if id.is_empty() || group.is_empty() {
            let status = Status::invalid_argument(
                "the first request must have a node with `id` and `cluster` (the group of resources to serve)",
            );
            let _ = outbox.send(Err(status)).await;
            return;
        }
        let snapshots = self.shared.groups.watch(&group);
        let mut session = Session::new(
            self.shared.limits,
            dialect,
            snapshots.borrow().clone(),
            Instant::now(),
        );
        session.had(self.shared.ledger.clusters_of(&group, &id));
        let proxy = Arc::new(Proxy::new(id, group.clone(), address, session));
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
struct Stream<P: Protocol> {
    shared: Arc<Shared>,
    proxy: Arc<Proxy>,
    outbox: Outbox<P>,
    /// [`Session::settled`] when the ledger's changes were told last.
    told: Option<u64>,
}

impl<P: Protocol> Stream<P> {
    fn open(shared: Arc<Shared>, proxy: Arc<Proxy>, outbox: Outbox<P>) -> Self {
        shared.metrics.stream_opened();
        shared.ledger.connect(&proxy);
        tracing::info!(group = proxy.group, node = proxy.node, "a proxy connected");
        Self {
            shared,
            proxy,
            outbox,
            told: None,
        }
    }

    /// Until the client leaves (`Ok`) or is to be sent away (`Err`).
    async fn serve(
        &mut self,
        first: P::Request,
        requests: &mut Streaming<P::Request>,
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
    async fn send_due(&mut self) -> Result<Option<Instant>, Status> {
        let (responses, wake, newly_synced, settled) = {
            let mut session = self.proxy.session();
            let now = Instant::now();
            let before = session.is_synced();
            let responses = session.poll(now);
            (
                responses,
                session.deadline(now),
                session.is_synced() && !before,
                session.settled(),
            )
        };
        // What waited may have turned out to be nothing, and a publish to be of no concern here.
        if newly_synced || (settled.is_some() && settled != self.told) {
            self.shared.ledger.changed();
        }
        self.told = settled;
        for response in responses {
            let (kind, sent, removed) = (
                response.kind,
                response.resources.len(),
                response.removed.len(),
            );
            tracing::debug!(node = self.proxy.node, %kind, sent, removed, nonce = response.nonce, "sending");
            self.put(Outgoing::Due(response)).await?;
            self.shared.metrics.count_response(kind, sent, removed);
        }
        Ok(wake)
    }

    async fn on_request(&mut self, request: P::Request) -> Result<(), Status> {
        self.proxy.seen();
        let type_url = P::type_url(&request);
        let kind = ResourceType::from_type_url(type_url);
        let Some(kind) = kind.filter(|kind| self.proxy.session().serves(*kind)) else {
            tracing::debug!(
                node = self.proxy.node,
                type_url,
                "a client asks for a type that is not served"
            );
            return match P::refuse(request) {
                Some(response) => self.put(Outgoing::Encoded(response)).await,
                None => Ok(()),
            };
        };
        let feedback = {
            let mut session = self.proxy.session();
            let feedback = P::tell(&mut session, kind, request);
            self.told = session.settled();
            feedback
        };
        self.on_feedback(kind, &feedback);
        if feedback.too_many {
            return Err(Status::resource_exhausted(
                "too many subscribed names on one stream",
            ));
        }
        Ok(())
    }

    fn on_feedback(&self, kind: ResourceType, feedback: &Feedback) {
        if let Some(text) = &feedback.rejected {
            self.shared.metrics.count_nack(kind);
            tracing::debug!(
                node = self.proxy.node, %kind, text, culprits = feedback.culprits.len(),
                "a response was rejected"
            );
            for culprit in &feedback.culprits {
                self.shared
                    .ledger
                    .note_rejection(&self.proxy, culprit, text);
            }
        }
        self.shared.ledger.changed();
    }

    async fn put(&self, response: Outgoing<P>) -> Result<(), Status> {
        let gone = |_| Status::cancelled("the client is gone");
        self.outbox.send(Ok(response)).await.map_err(gone)
    }

    /// Tells the client why its stream ends, if it listens.
    async fn end(&self, status: Status) {
        tracing::debug!(node = self.proxy.node, %status, "ending a stream");
        let _ = self.outbox.send(Err(status)).await;
    }
}

impl<P: Protocol> Drop for Stream<P> {
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

/// A resource's message as it stands in responses.
fn any(kind: ResourceType, body: &[u8]) -> Any {
    Any {
        type_url: kind.type_url().to_owned(),
        value: body.to_vec(),
    }
}
