//! A running server and raw clients.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(missing_docs, unreachable_pub)]

use chiton_xds::{Listener, Options, ResourceType, Server};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::rpc;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(PATIENCE, future).await;
    result.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Waits until a condition on what the ledger or the metrics say holds.
pub async fn until(server: &Server, condition: impl Fn(&Server) -> bool) {
    let mut changes = server.ledger().changes();
    let wait = async {
        while !condition(server) {
            changes.changed().await.expect("the server lives");
        }
    };
    let result = tokio::time::timeout(PATIENCE, wait).await;
    let proxies = || server.ledger().proxies();
    result.unwrap_or_else(|_| panic!("the condition does not hold; {:#?}", proxies()));
}

/// A server that is being served until it is dropped or stopped.
pub struct Running {
    server: Server,
    address: SocketAddr,
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    folder: Option<TempDir>,
}

impl Running {
    pub async fn start(options: Options) -> Self {
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("xds.sock");
        let mut running = Self::start_at(Server::new(options), &socket).await;
        running.folder = Some(folder);
        running
    }

    pub async fn start_at(server: Server, socket: &Path) -> Self {
        let _ = std::fs::remove_file(socket);
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let unix = UnixListener::bind(socket).expect("a socket");
        let (stop, stopped) = oneshot::channel();
        let this = server.clone();
        let task = tokio::spawn(async move {
            let listeners = vec![Listener::Tcp(tcp), Listener::Unix(unix)];
            let shutdown = async {
                let _ = stopped.await;
            };
            this.serve(listeners, shutdown).await.expect("serves");
        });
        Self {
            server,
            address,
            socket: socket.to_owned(),
            stop: Some(stop),
            task,
            folder: None,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn tcp(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn unix(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub async fn stop(&mut self) {
        drop(self.stop.take());
        soon("the server stops", &mut self.task)
            .await
            .expect("no panic");
    }
}

impl Deref for Running {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

/// A client that sends what it is told to, and nothing else.
pub struct Raw {
    node: Option<Node>,
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

pub async fn client(address: &str) -> AggregatedDiscoveryServiceClient<tonic::transport::Channel> {
    let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
    let channel = soon("connecting", endpoint.connect())
        .await
        .expect("connects");
    AggregatedDiscoveryServiceClient::new(channel)
        .max_encoding_message_size(usize::MAX)
        .max_decoding_message_size(usize::MAX)
}

impl Raw {
    /// A client that does not know VHDS.
    pub async fn connect(address: &str, node: &str, group: &str) -> Self {
        Self::connect_as(address, node_of(node, group, "")).await
    }

    /// A client that knows VHDS.
    pub async fn connect_envoy(address: &str, node: &str, group: &str) -> Self {
        Self::connect_as(address, node_of(node, group, "envoy")).await
    }

    async fn connect_as(address: &str, node: Node) -> Self {
        let (requests, outbox) = mpsc::channel(16);
        let responses = client(address)
            .await
            .delta_aggregated_resources(ReceiverStream::new(outbox))
            .await
            .expect("a stream")
            .into_inner();
        Self {
            node: Some(node),
            requests,
            responses,
        }
    }

    async fn send(&mut self, mut request: DeltaDiscoveryRequest) {
        request.node = self.node.take();
        self.requests.send(request).await.expect("the stream lives");
    }

    pub async fn subscribe(&mut self, kind: ResourceType, names: &[&str]) {
        self.subscribe_url(kind.type_url(), names).await;
    }

    pub async fn subscribe_url(&mut self, url: &str, names: &[&str]) {
        self.send(DeltaDiscoveryRequest {
            type_url: url.to_owned(),
            resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    pub async fn reconnect(&mut self, kind: ResourceType, names: &[&str], has: &[(&str, &str)]) {
        let versions = has
            .iter()
            .map(|(name, version)| (name.to_string(), version.to_string()));
        self.send(DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
            initial_resource_versions: versions.collect(),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    pub async fn next(&mut self) -> DeltaDiscoveryResponse {
        soon("a response", self.responses.message())
            .await
            .expect("no error")
            .expect("a response")
    }

    pub async fn ack(&mut self, response: &DeltaDiscoveryResponse) {
        self.answer(response, None).await;
    }

    pub async fn nack(&mut self, response: &DeltaDiscoveryResponse, text: &str) {
        self.answer(response, Some(text)).await;
    }

    pub async fn ack_next(&mut self) -> DeltaDiscoveryResponse {
        let response = self.next().await;
        self.ack(&response).await;
        response
    }

    async fn answer(&mut self, response: &DeltaDiscoveryResponse, error: Option<&str>) {
        let error_detail = error.map(self::error);
        self.send(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail,
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    pub async fn end(&mut self) -> Status {
        end(&mut self.responses).await
    }
}

/// As [`Raw`], in the state of the world.
pub struct State {
    node: Option<Node>,
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
}

impl State {
    pub async fn connect(address: &str, node: &str, group: &str) -> Self {
        let (requests, outbox) = mpsc::channel(16);
        let responses = client(address)
            .await
            .stream_aggregated_resources(ReceiverStream::new(outbox))
            .await
            .expect("a stream")
            .into_inner();
        Self {
            node: Some(node_of(node, group, "")),
            requests,
            responses,
        }
    }

    async fn send(&mut self, mut request: DiscoveryRequest) {
        request.node = self.node.take();
        self.requests.send(request).await.expect("the stream lives");
    }

    /// A request without a nonce: the first of a type.
    pub async fn request(&mut self, kind: ResourceType, names: &[&str]) {
        self.request_url(kind.type_url(), names).await;
    }

    pub async fn request_url(&mut self, url: &str, names: &[&str]) {
        self.send(DiscoveryRequest {
            type_url: url.to_owned(),
            resource_names: names.iter().map(ToString::to_string).collect(),
            ..DiscoveryRequest::default()
        })
        .await;
    }

    pub async fn next(&mut self) -> DiscoveryResponse {
        soon("a response", self.responses.message())
            .await
            .expect("no error")
            .expect("a response")
    }

    pub async fn ack(&mut self, response: &DiscoveryResponse, names: &[&str]) {
        self.send(DiscoveryRequest {
            version_info: response.version_info.clone(),
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            resource_names: names.iter().map(ToString::to_string).collect(),
            ..DiscoveryRequest::default()
        })
        .await;
    }

    /// Rejects a response; the version stays the old one.
    pub async fn nack(
        &mut self,
        response: &DiscoveryResponse,
        version: &str,
        names: &[&str],
        text: &str,
    ) {
        self.send(DiscoveryRequest {
            version_info: version.to_owned(),
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            resource_names: names.iter().map(ToString::to_string).collect(),
            error_detail: Some(error(text)),
            ..DiscoveryRequest::default()
        })
        .await;
    }

    pub async fn ack_next(&mut self, names: &[&str]) -> DiscoveryResponse {
        let response = self.next().await;
        self.ack(&response, names).await;
        response
    }

    pub async fn end(&mut self) -> Status {
        end(&mut self.responses).await
    }
}

fn node_of(node: &str, group: &str, user_agent_name: &str) -> Node {
    Node {
        id: node.to_owned(),
        cluster: group.to_owned(),
        user_agent_name: user_agent_name.to_owned(),
        ..Node::default()
    }
}

fn error(text: &str) -> rpc::Status {
    rpc::Status {
        code: 13,
        message: text.to_owned(),
        details: Vec::new(),
    }
}

/// The status with which the stream ends.
async fn end<T>(responses: &mut Streaming<T>) -> Status {
    loop {
        match soon("the end", responses.message()).await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok("ended"),
            Err(status) => return status,
        }
    }
}

pub fn names(response: &DeltaDiscoveryResponse) -> Vec<&str> {
    response
        .resources
        .iter()
        .map(|resource| &*resource.name)
        .collect()
}

/// A way to a server that can be cut without either side being told.
pub struct Cut(watch::Sender<bool>);

impl Cut {
    pub fn cut(&self) {
        self.0.send_replace(true);
    }
}

pub async fn cuttable(address: &str) -> (String, Cut) {
    let (cut, watch) = watch::channel(false);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let here = listener.local_addr().expect("an address");
    let there = address.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.expect("a connection");
        let mut far = TcpStream::connect(there).await.expect("connects");
        let mut is_cut = watch.clone();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = is_cut.wait_for(|cut| *cut) => {}
        }
        // Both connections stay open, and nothing passes any more.
        std::future::pending::<()>().await;
    });
    (format!("http://{here}"), Cut(cut))
}
