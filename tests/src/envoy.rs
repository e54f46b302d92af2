//! The admin interface of the managed Envoy.

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::path::Path;
use tokio::net::UnixStream;

/// GETs JSON from the Envoy of the host with this data folder.
pub async fn get(data_dir: &Path, path: &str) -> anyhow::Result<Value> {
    let socket = data_dir.join("envoy-admin.sock");
    let stream = UnixStream::connect(&socket)
        .await
        .with_context(|| format!("connecting to {}", socket.display()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .uri(path)
        .header("host", "envoy")
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    anyhow::ensure!(status.is_success(), "Envoy answered {status} to {path}");
    serde_json::from_slice(&body).with_context(|| format!("Envoy's answer to {path}"))
}
