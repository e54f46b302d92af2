//! A small HTTP server that says what it was asked: the backend of the examples and tests.
//!
//! It speaks HTTP/1.1 and HTTP/2 with prior knowledge, and answers every request with a JSON object:
//! its own name, the method, path, host, protocol and headers that it saw. The header `x-backend` of
//! the answer is its name too. The query parameter `status=NNN` chooses the answer's status,
//! `delay_ms=N` (at most 60,000) delays it. A request for an upgrade (WebSocket) is accepted, and what
//! comes on the connection is sent back as it came. `/_count` answers how many requests for other
//! paths the name has had, so that copies, whose answers nobody sees, can be seen.

use anyhow::Context as _;
use clap::Parser;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// Longest delay that a request may ask for.
const MAX_DELAY_MS: u64 = 60_000;

/// A small HTTP server that says what it was asked.
#[derive(Parser)]
struct Options {
    /// Addresses to listen on, each with the name that answers there: `NAME=ADDRESS:PORT`. Port 0
    /// takes a free one. Each is printed as `NAME ADDRESS:PORT` once it is open.
    #[arg(required = true)]
    listen: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut servers = tokio::task::JoinSet::new();
    for listen in &options.listen {
        let (name, address) = listen
            .split_once('=')
            .with_context(|| format!("{listen}: expected NAME=ADDRESS:PORT"))?;
        let address: SocketAddr = address
            .parse()
            .with_context(|| format!("{listen}: not an address and port"))?;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; is the port taken?"))?;
        println!("{name} {}", listener.local_addr()?);
        let backend = Backend {
            name: name.to_owned(),
            count: AtomicU64::new(0),
        };
        servers.spawn(serve(listener, Arc::new(backend)));
    }
    while servers.join_next().await.is_some() {}
    Ok(())
}

/// Who answers.
struct Backend {
    name: String,
    /// Requests so far.
    count: AtomicU64,
}

async fn serve(listener: TcpListener, backend: Arc<Backend>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // Small answers must not wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let backend = backend.clone();
        tokio::spawn(async move {
            let service =
                hyper::service::service_fn(move |request| answer(backend.clone(), request));
            // A client that goes away in the middle is its own affair.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection_with_upgrades(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    backend: Arc<Backend>,
    mut request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/_count" {
        let count = backend.count.load(Ordering::Relaxed);
        let body = json!({"backend": backend.name, "count": count});
        return Ok(Response::new(Full::from(body.to_string() + "\n")));
    }
    backend.count.fetch_add(1, Ordering::Relaxed);
    if let Some(protocol) = request.headers().get(UPGRADE).cloned() {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(echo(upgrade));
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(
            CONNECTION,
            hyper::header::HeaderValue::from_static("upgrade"),
        );
        response.headers_mut().insert(UPGRADE, protocol);
        return Ok(response);
    }
    let delay = query(&request, "delay_ms").unwrap_or(0).min(MAX_DELAY_MS);
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let status = query(&request, "status")
        .and_then(|status| u16::try_from(status).ok())
        .and_then(|status| StatusCode::from_u16(status).ok())
        .unwrap_or(StatusCode::OK);
    let body = describe(&backend.name, &request).to_string() + "\n";
    // Reads the body to its end, so that the connection can be used again.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/json"),
    );
    if let Ok(name) = hyper::header::HeaderValue::from_str(&backend.name) {
        response.headers_mut().insert("x-backend", name);
    }
    Ok(response)
}

/// What the request was.
fn describe(name: &str, request: &Request<Incoming>) -> Value {
    let mut headers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (header, value) in request.headers() {
        headers
            .entry(header.as_str())
            .or_default()
            .push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    let host = request
        .uri()
        .authority()
        .map(ToString::to_string)
        .or_else(|| {
            request
                .headers()
                .get(HOST)
                .map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned())
        });
    json!({
        "backend": name,
        "method": request.method().as_str(),
        "path": request.uri().path_and_query().map_or("/", |path| path.as_str()),
        "host": host,
        "protocol": format!("{:?}", request.version()),
        "headers": headers,
    })
}

/// The number that a query parameter holds.
fn query(request: &Request<Incoming>, name: &str) -> Option<u64> {
    request
        .uri()
        .query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.parse().ok())
}

async fn echo(upgrade: hyper::upgrade::OnUpgrade) {
    if let Ok(connection) = upgrade.await {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(connection));
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
    }
}
