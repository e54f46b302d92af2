//! Delta ADS with messages as bytes: what a relay forwards and what a bare loop sends.
//!
//! Messages are looked into only as far as names, nonces and bodies, and without copying.

use prost::bytes::{Buf as _, BufMut as _, Bytes};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio_stream::Stream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// Where the one method of the service is.
pub const PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// Endpoints of a cluster.
pub const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Virtual hosts.
pub const VIRTUAL_HOST: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";

/// `DeltaDiscoveryRequest`, as much of it as is needed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeltaRequest {
    /// Type of the resources.
    #[prost(string, tag = "2")]
    pub type_url: String,
    /// Names that are asked for from now on.
    #[prost(string, repeated, tag = "3")]
    pub subscribe: Vec<String>,
    /// The response that this acknowledges or refuses; empty if none.
    #[prost(string, tag = "6")]
    pub nonce: String,
    /// Why the response is refused.
    #[prost(message, optional, tag = "7")]
    pub error: Option<Refusal>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refusal {
    /// Envoy's words.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `DeltaDiscoveryResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeltaResponse {
    /// Resources that are new or changed.
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Resource>,
    /// Their type.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// What the client answers with.
    #[prost(string, tag = "5")]
    pub nonce: String,
    /// Names that are gone.
    #[prost(string, repeated, tag = "6")]
    pub removed: Vec<String>,
}

/// `envoy.service.discovery.v3.Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// Version.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The resource.
    #[prost(message, optional, tag = "2")]
    pub body: Option<Any>,
    /// Name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Any {
    /// Type.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// Encoded message.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

impl Resource {
    /// The encoded message; empty if there is none.
    pub fn value(&self) -> Bytes {
        self.body
            .as_ref()
            .map(|body| body.value.clone())
            .unwrap_or_default()
    }
}

/// Messages as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// What goes to a client.
pub type Responses = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Who answers a stream.
pub trait Answer: Clone + Send + Sync + 'static {
    /// A client has opened a stream. Does not wait.
    fn open(&self, requests: Streaming<Bytes>) -> Responses;
}

/// Serves until the task that runs it is aborted.
pub async fn serve(listener: TcpListener, answer: impl Answer) -> anyhow::Result<()> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tonic::transport::Server::builder()
        .add_service(Ads(answer))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

/// The service as tonic's router wants it.
#[derive(Clone)]
struct Ads<A>(A);

impl<A> NamedService for Ads<A> {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl<A: Answer> Service<http::Request<tonic::body::Body>> for Ads<A> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let streams = Streams(self.0.clone());
        Box::pin(async move {
            let mut grpc = Grpc::new(Raw).max_decoding_message_size(usize::MAX);
            Ok(grpc.streaming(streams, request).await)
        })
    }
}

struct Streams<A>(A);

impl<A: Answer> StreamingService<Bytes> for Streams<A> {
    type Response = Bytes;
    type ResponseStream = Responses;
    type Future = BoxFuture<Response<Responses>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let responses = self.0.open(request.into_inner());
        Box::pin(async move { Ok(Response::new(responses)) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use prost::Message as _;

    /// Bytes as `protoc` would make them: field 1 is of the system version, which is skipped.
    #[test]
    fn what_is_not_needed_of_a_message_is_skipped() {
        let bytes = Bytes::from_static(b"\x0a\x01s\x12\x0f\x0a\x01v\x12\x07\x0a\x01t\x12\x02ab\x1a\x01n\x22\x01u\x2a\x011\x32\x01g");
        let response = DeltaResponse::decode(bytes).unwrap();
        assert_eq!(response.type_url, "u");
        assert_eq!(response.nonce, "1");
        assert_eq!(response.removed, ["g"]);
        let resource = &response.resources[0];
        assert_eq!((&*resource.name, &*resource.version), ("n", "v"));
        assert_eq!(resource.value(), "ab");
    }
}
