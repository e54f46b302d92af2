//! A client that sends just what it is told.

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// What the backend saw.
    pub fn seen(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|_| panic!("not from the backend: {self:?}"))
    }

    /// The path that the backend saw.
    pub fn path(&self) -> String {
        self.seen()["path"].as_str().expect("a path").to_owned()
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A header that the backend saw.
    pub fn sent(&self, name: &str) -> Vec<String> {
        self.seen()["headers"][name]
            .as_array()
            .map(|values| {
                values
                    .iter()
                    .filter_map(|value| value.as_str().map(ToOwned::to_owned))
                    .collect()
            })
            .unwrap_or_default()
    }
}

/// Sends `GET` unless the headers name a `:method`.
pub async fn get(port: u16, host: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let stream = TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("Envoy listens");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a connection");
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::builder().uri(path).header("host", host);
    for (name, value) in headers {
        request = match *name {
            ":method" => request.method(*value),
            _ => request.header(*name, *value),
        };
    }
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let (head, body) = response.into_parts();
    let body = if head.status == 101 {
        Bytes::new()
    } else {
        body.collect().await.expect("a body").to_bytes()
    };
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}
