//! The admin server: health, metrics, and what `chiton status` and `chiton modules` show.
//!
//! | path | answer |
//! | --- | --- |
//! | `/healthz` | 200 while the process works |
//! | `/readyz` | 200 once every kind is listed, every module live or refused and the first epoch served, else 503; `?verbose` says what is waited for |
//! | `/metrics` | Prometheus text |
//! | `/api/v1/objects` | objects and their conditions |
//! | `/api/v1/modules` | modules with version, digest, state, counters |
//! | `/api/v1/proxies` | connected proxies and what they acknowledged |
//! | `/api/v1/problems` | files that cannot be read as manifests |
//!
//! It has no authentication: bind it to an address that only operators reach.

mod metrics;

pub use metrics::Metrics;

use crate::modules::{ModuleInfo, Registry};
use crate::runtime::{Need, Readiness};
use crate::status::{Board, ObjectStatus};
use crate::watcher::files::Problem;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use chiton_xds::{ProxySummary, Server};
use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the admin server shows.
#[derive(Clone)]
pub struct Admin {
    /// Whether proxies are told the truth.
    pub readiness: Arc<Readiness>,
    /// Objects.
    pub board: Arc<Board>,
    /// Modules.
    pub modules: Arc<Registry>,
    /// Proxies.
    pub xds: Server,
    /// Problems of files.
    pub problems: watch::Receiver<Vec<Problem>>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Serves until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    admin: Admin,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/objects", get(objects))
        .route("/api/v1/modules", get(modules))
        .route("/api/v1/proxies", get(proxies))
        .route("/api/v1/problems", get(problems))
        .with_state(admin);
    axum::serve(listener, routes)
        .with_graceful_shutdown(shutdown)
        .await
}

async fn ready(State(admin): State<Admin>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let ready = admin.readiness.is_ready();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let verbose = query
        .as_deref()
        .is_some_and(|query| query.split('&').any(|pair| pair == "verbose"));
    let text = if verbose {
        admin.readiness.needs().iter().map(line).collect()
    } else if ready {
        "ok\n".to_owned()
    } else {
        "not ready; ask /readyz?verbose\n".to_owned()
    };
    (status, text)
}

fn line(need: &Need) -> String {
    match &need.missing {
        None => format!("[+] {}\n", need.name),
        Some(missing) => format!("[-] {}: {missing}\n", need.name),
    }
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    match admin.metrics.text(&admin) {
        Ok(text) => (
            StatusCode::OK,
            [("content-type", prometheus::TEXT_FORMAT)],
            text,
        ),
        Err(error) => {
            let text = format!("metrics cannot be written: {error}\n");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                [("content-type", "text/plain")],
                text,
            )
        }
    }
}

async fn objects(State(admin): State<Admin>) -> Json<Vec<ObjectStatus>> {
    Json(admin.board.objects())
}

async fn modules(State(admin): State<Admin>) -> Json<Vec<ModuleInfo>> {
    Json(admin.modules.list())
}

async fn proxies(State(admin): State<Admin>) -> Json<Vec<ProxySummary>> {
    Json(admin.xds.ledger().proxies())
}

async fn problems(State(admin): State<Admin>) -> Json<Vec<Problem>> {
    Json(admin.problems.borrow().clone())
}
