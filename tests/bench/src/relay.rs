//! Between a proxy and who serves it: passes every message on and tells of it.
//!
//! Host and bare loop are measured behind the same relay, at the same point: the proxy's
//! acknowledgement on its way back. A proxy that is connected to
//! the relay waits there until its server listens, so no back-off of Envoy's gets into a start.

use crate::wire::{self, Answer, Raw, Responses};
use chiton_tests::paths;
use prost::bytes::Bytes;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// How often a server that does not listen yet is tried.
const RETRY: Duration = Duration::from_millis(2);

/// Flow-control window towards the server, so that the relay is never what it waits for.
const WINDOW: u32 = 1 << 30;

/// What passed.
#[derive(Debug)]
pub enum Passed {
    /// The proxy opened a stream.
    Opened,
    /// A request, at a time.
    Request(Instant, Bytes),
    /// A response.
    Response(Bytes),
}

/// A running relay.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    task: AbortHandle,
}

impl Relay {
    /// Starts a relay to the server that listens, now or later, on a port of 127.0.0.1.
    pub async fn start(server: u16) -> anyhow::Result<(Self, UnboundedReceiver<Passed>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (passed, seen) = mpsc::unbounded_channel();
        let between = Between { server, passed };
        let task = tokio::spawn(wire::serve(listener, between)).abort_handle();
        Ok((Self { port, task }, seen))
    }

    /// Where the proxy connects.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A port that nobody has.
pub fn free_port() -> anyhow::Result<u16> {
    let [port] = paths::free_ports()?;
    Ok(port)
}

#[derive(Clone)]
struct Between {
    server: u16,
    passed: UnboundedSender<Passed>,
}

impl Answer for Between {
    fn open(&self, requests: Streaming<Bytes>) -> Responses {
        // Nobody listens any more once the measure is over; so everywhere here.
        let _ = self.passed.send(Passed::Opened);
        let (to_proxy, responses) = mpsc::unbounded_channel();
        let between = self.clone();
        tokio::spawn(async move {
            if let Err(status) = between.forward(requests, &to_proxy).await {
                let _ = to_proxy.send(Err(status));
            }
        });
        Box::pin(UnboundedReceiverStream::new(responses))
    }
}

impl Between {
    async fn forward(
        self,
        mut requests: Streaming<Bytes>,
        to_proxy: &UnboundedSender<Result<Bytes, Status>>,
    ) -> Result<(), Status> {
        let (to_server, upward) = mpsc::unbounded_channel();
        let passed = self.passed.clone();
        let up = tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                let _ = passed.send(Passed::Request(Instant::now(), request.clone()));
                if to_server.send(request).is_err() {
                    break;
                }
            }
        });
        let mut grpc = tonic::client::Grpc::new(connect(self.server, to_proxy).await?)
            .max_decoding_message_size(usize::MAX);
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let upward = Request::new(UnboundedReceiverStream::new(upward));
        let path = PathAndQuery::from_static(wire::PATH);
        let mut responses = grpc.streaming(upward, path, Raw).await?.into_inner();
        while let Some(response) = responses.message().await? {
            let _ = self.passed.send(Passed::Response(response.clone()));
            if to_proxy.send(Ok(response)).is_err() {
                break;
            }
        }
        up.abort();
        Ok(())
    }
}

/// Connects as soon as the server listens, unless the proxy goes away.
async fn connect(
    server: u16,
    to_proxy: &UnboundedSender<Result<Bytes, Status>>,
) -> Result<Channel, Status> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{server}"))
        .map_err(|error| Status::internal(error.to_string()))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .tcp_nodelay(true);
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(_) if to_proxy.is_closed() => return Err(Status::cancelled("the proxy is gone")),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}
