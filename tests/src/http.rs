//! Real requests.

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// Longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A request to a port of 127.0.0.1.
#[derive(Clone, Debug)]
pub struct Ask {
    port: u16,
    method: Method,
    host: String,
    path: String,
    headers: Vec<(String, String)>,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// A GET of `path` at a port.
#[must_use]
pub fn get(port: u16, path: &str) -> Ask {
    Ask {
        port,
        method: Method::GET,
        host: format!("127.0.0.1:{port}"),
        path: path.to_owned(),
        headers: Vec::new(),
    }
}

impl Ask {
    /// With this host.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// With this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends it over a connection of its own.
    pub async fn send(&self) -> anyhow::Result<Answer> {
        tokio::time::timeout(TIMEOUT, self.exchange())
            .await
            .with_context(|| format!("no answer from port {} in {TIMEOUT:?}", self.port))?
    }

    async fn exchange(&self) -> anyhow::Result<Answer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("connecting to {address}"))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let answer = self.over(&mut sender).await;
        connection.abort();
        answer
    }

    /// Sends it over a connection that is kept.
    pub async fn over(
        &self,
        sender: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header("host", &self.host);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = sender.send_request(request.body(Full::default())?).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

impl Answer {
    /// A header's value; empty if it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// All values of a header, in order.
    #[must_use]
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).collect()
    }

    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The name of the example backend that answered; empty if none did.
    #[must_use]
    pub fn backend(&self) -> String {
        self.json()["backend"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// A request header as the example backend saw it; values joined by commas.
    #[must_use]
    pub fn seen(&self, header: &str) -> String {
        let values = self.json()["headers"][header]
            .as_array()
            .cloned()
            .unwrap_or_default();
        values
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// The path as the example backend saw it.
    #[must_use]
    pub fn seen_path(&self) -> String {
        self.json()["path"].as_str().unwrap_or_default().to_owned()
    }
}
