//! What the public xDS test harness needs of a server under test.
//!
//! [`Adapter`] is the service by which the harness says what the server should have. [`Front`] is
//! where it connects: it passes everything on to the server, and translates two things. The harness
//! knows no `node.cluster`, which is this server's name for a group of clients; and it names versions
//! itself ("1", then "2"), while this server makes them out of content.

use crate::support::client;
use chiton_xds::{Change, Resource, ResourceName, ResourceType, Server};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, cluster_load_assignment::Policy,
};
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::{Any, UInt32Value};
use futures::StreamExt as _;
use futures::future::{BoxFuture, Ready, ready};
use futures::stream::BoxStream;
use prost::Message;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// The harness unsubscribes on one connection and then changes the resource on another without
/// waiting: this is for the first to come first.
const HEAD_START: Duration = Duration::from_millis(500);

/// By type URL: how the harness calls the version that is there now.
type Labels = Arc<Mutex<HashMap<String, String>>>;

#[derive(Clone, PartialEq, Message)]
struct SetState {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(message, repeated, tag = "3")]
    resources: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct ClearState {
    #[prost(string, tag = "1")]
    node: String,
}

#[derive(Clone, PartialEq, Message)]
struct OneResource {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(string, tag = "2")]
    type_url: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    version: String,
}

/// Of all methods but `ClearState`.
#[derive(Clone, PartialEq, Message)]
struct Done {
    #[prost(bool, tag = "1")]
    success: bool,
}

/// Of `ClearState`.
#[derive(Clone, PartialEq, Message)]
struct Cleared {
    #[prost(string, tag = "1")]
    response: String,
}

/// The service `adapter.Adapter` of the harness's `adapter.proto`.
#[derive(Clone)]
pub struct Adapter {
    server: Server,
    labels: Labels,
}

impl Adapter {
    pub fn new(server: Server, labels: &Labels) -> Self {
        Self {
            server,
            labels: labels.clone(),
        }
    }

    fn set_state(&self, request: SetState) -> Result<Done, Status> {
        let mut changes = Vec::new();
        for resource in request.resources {
            let name = name_of(&resource)?;
            self.label(&resource.type_url, &request.version);
            changes.push(put(&resource.type_url, &name, &request.version)?);
        }
        self.server.publish(&request.node, changes);
        self.server.set_ready(&request.node);
        Ok(Done { success: true })
    }

    fn put(&self, request: &OneResource) -> Result<Done, Status> {
        let change = put(&request.type_url, &request.name, &request.version)?;
        self.label(&request.type_url, &request.version);
        self.server.publish(&request.node, vec![change]);
        Ok(Done { success: true })
    }

    fn remove(&self, request: OneResource) -> Result<Done, Status> {
        let name = ResourceName::new(kind_of(&request.type_url)?, request.name);
        self.server
            .publish(&request.node, vec![Change::Remove(name)]);
        Ok(Done { success: true })
    }

    fn clear(&self, request: &ClearState) -> Cleared {
        self.server.remove_group(&request.node);
        Cleared {
            response: "cleared".to_owned(),
        }
    }

    fn label(&self, type_url: &str, version: &str) {
        let mut labels = self.labels.lock().expect("no panic");
        labels.insert(type_url.to_owned(), version.to_owned());
    }
}

fn kind_of(type_url: &str) -> Result<ResourceType, Status> {
    ResourceType::from_type_url(type_url)
        .ok_or_else(|| Status::invalid_argument(format!("not served: {type_url}")))
}

/// The harness sends messages with nothing but a name, which is the first field of all of them.
fn name_of(resource: &Any) -> Result<String, Status> {
    let named = ClearState::decode(&*resource.value);
    named
        .map(|named| named.node)
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

/// A resource that is different for each version.
fn put(type_url: &str, name: &str, version: &str) -> Result<Change, Status> {
    let kind = kind_of(type_url)?;
    let (name, version) = (name.to_owned(), version.to_owned());
    let body = match kind {
        ResourceType::Cluster => Cluster {
            name: name.clone(),
            alt_stat_name: version,
            ..Cluster::default()
        }
        .encode_to_vec(),
        ResourceType::Listener => Listener {
            name: name.clone(),
            stat_prefix: version,
            ..Listener::default()
        }
        .encode_to_vec(),
        ResourceType::RouteConfiguration => RouteConfiguration {
            name: name.clone(),
            internal_only_headers: vec![version],
            ..RouteConfiguration::default()
        }
        .encode_to_vec(),
        ResourceType::Endpoints => ClusterLoadAssignment {
            cluster_name: name.clone(),
            policy: Some(Policy {
                overprovisioning_factor: version.parse().ok().map(|value| UInt32Value { value }),
                ..Policy::default()
            }),
            ..ClusterLoadAssignment::default()
        }
        .encode_to_vec(),
        _ => return Err(Status::invalid_argument(format!("not tested: {kind}"))),
    };
    Ok(Change::Put(Resource::new(kind, name, body)))
}

impl NamedService for Adapter {
    const NAME: &'static str = "adapter.Adapter";
}

impl Service<http::Request<Body>> for Adapter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let method = path.rsplit('/').next().unwrap_or_default();
            if method == "UpdateResource" {
                tokio::time::sleep(HEAD_START).await;
            }
            let response = match method {
                "SetState" => unary(request, move |message| this.set_state(message)).await,
                "ClearState" => unary(request, move |message| Ok(this.clear(&message))).await,
                "UpdateResource" | "AddResource" => {
                    unary(request, move |message| this.put(&message)).await
                }
                "RemoveResource" => unary(request, move |message| this.remove(message)).await,
                _ => Status::unimplemented(path).into_http(),
            };
            Ok(response)
        })
    }
}

/// What generated code does for a unary method.
async fn unary<Q, A>(
    request: http::Request<Body>,
    act: impl Fn(Q) -> Result<A, Status> + Send + 'static,
) -> http::Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    struct Act<F>(F);
    impl<Q, A, F: Fn(Q) -> Result<A, Status>> UnaryService<Q> for Act<F> {
        type Response = A;
        type Future = Ready<Result<Response<A>, Status>>;
        fn call(&mut self, request: Request<Q>) -> Self::Future {
            ready(self.0(request.into_inner()).map(Response::new))
        }
    }
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<A, Q>::default());
    grpc.unary(Act(act), request).await
}

/// See the module.
pub struct Front {
    /// Of the server.
    pub address: String,
    pub labels: Labels,
}

impl Front {
    fn label(labels: &Labels, type_url: &str) -> String {
        let labels = labels.lock().expect("no panic");
        labels.get(type_url).cloned().unwrap_or_default()
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Front {
    type StreamAggregatedResourcesStream = BoxStream<'static, Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream =
        BoxStream<'static, Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        // By type URL and nonce: the server's own version.
        let versions = Arc::new(Mutex::new(HashMap::new()));
        let own: Arc<Mutex<HashMap<(String, String), String>>> = versions.clone();
        let requests = pass_on(request.into_inner(), move |request| {
            name_group(request.node.as_mut());
            let key = (request.type_url.clone(), request.response_nonce.clone());
            if let Some(version) = own.lock().expect("no panic").get(&key) {
                request.version_info.clone_from(version);
            }
        });
        let mut server = client(&self.address).await;
        let responses = server.stream_aggregated_resources(requests).await?;
        let labels = self.labels.clone();
        let responses = responses.into_inner().map(move |response| {
            let mut response = response?;
            let label = Self::label(&labels, &response.type_url);
            let version = std::mem::replace(&mut response.version_info, label);
            let key = (response.type_url.clone(), response.nonce.clone());
            versions.lock().expect("no panic").insert(key, version);
            Ok(response)
        });
        Ok(Response::new(responses.boxed()))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let requests = pass_on(request.into_inner(), |request| {
            name_group(request.node.as_mut());
        });
        let mut server = client(&self.address).await;
        let responses = server.delta_aggregated_resources(requests).await?;
        let labels = self.labels.clone();
        let responses = responses.into_inner().map(move |response| {
            let mut response = response?;
            response.system_version_info = Self::label(&labels, &response.type_url);
            Ok(response)
        });
        Ok(Response::new(responses.boxed()))
    }
}

/// Requests until the client ends or breaks, each changed on its way.
fn pass_on<T: Send + 'static>(
    mut requests: Streaming<T>,
    change: impl Fn(&mut T) + Send + 'static,
) -> ReceiverStream<T> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok(Some(mut request)) = requests.message().await {
            change(&mut request);
            if sender.send(request).await.is_err() {
                break;
            }
        }
    });
    ReceiverStream::new(receiver)
}

fn name_group(node: Option<&mut Node>) {
    if let Some(node) = node {
        node.cluster.clone_from(&node.id);
    }
}
