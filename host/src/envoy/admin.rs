//! Envoy's admin interface, over its Unix socket.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// How long an answer may take: Envoy's main thread may be busy with a large update.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest answer that is taken. The dump of a very large configuration reaches tens of MiB.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// Asks, and returns the body whatever the status: `/ready` says much with 503.
pub async fn request(socket: &Path, method: Method, path: &str) -> io::Result<Bytes> {
    tokio::time::timeout(TIMEOUT, exchange(socket, method, path))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "Envoy does not answer"))?
}

async fn exchange(socket: &Path, method: Method, path: &str) -> io::Result<Bytes> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "envoy")
        .body(Empty::new())
        .map_err(io::Error::other)?;
    let answer = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let body = Limited::new(response.into_body(), MAX_ANSWER);
        let body = body.collect().await.map_err(io::Error::other)?;
        Ok(body.to_bytes())
    };
    // The connection is driven here, and ends with the answer.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}
