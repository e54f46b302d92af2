//! A backend that answers with what it was asked.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

/// A running backend.
pub struct Backend {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Backend {
    pub async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let records = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let records = records.clone();
                let service = hyper::service::service_fn(move |request| {
                    answer(name, request, records.clone())
                });
                tokio::spawn(async move {
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection_with_upgrades(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, seen }
    }

    /// Requests so far.
    pub fn seen(&self) -> Vec<Value> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

async fn answer(
    name: &'static str,
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let headers: serde_json::Map<String, Value> = request
        .headers()
        .keys()
        .map(|key| {
            let values: Vec<_> = request
                .headers()
                .get_all(key)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect();
            (key.to_string(), values.into())
        })
        .collect();
    let authority = request.uri().authority().map(ToString::to_string);
    let host = request
        .headers()
        .get("host")
        .and_then(|host| host.to_str().ok().map(ToOwned::to_owned))
        .or(authority);
    let found = json!({
        "backend": name,
        "method": request.method().as_str(),
        "path": request.uri().path_and_query().map(ToString::to_string),
        "host": host,
        "version": format!("{:?}", request.version()),
        "headers": headers,
    });
    seen.lock().expect("not poisoned").push(found.clone());
    let query = request.uri().query().unwrap_or_default();
    if let Some(delay) = query.strip_prefix("delay_ms=") {
        tokio::time::sleep(Duration::from_millis(delay.parse().expect("a number"))).await;
    }
    let mut response = Response::builder().header("x-from", "backend");
    if request.headers().contains_key("upgrade") {
        response = response
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "upgrade")
            .header("upgrade", "websocket");
    }
    Ok(response
        .body(Full::from(found.to_string()))
        .expect("a response"))
}
