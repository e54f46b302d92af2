//! Ending an Envoy without cutting off its clients.

use super::admin;
use super::process::Process;
use hyper::Method;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

/// How long connections may take to end when Envoy is stopped. Their clients are told to close them.
const DRAIN_TIME: Duration = Duration::from_secs(3);
/// How long Envoy may take to end after SIGTERM.
const TERM_TIME: Duration = Duration::from_secs(3);
/// How long SIGKILL may take: longer only where the kernel is stuck.
const KILL_TIME: Duration = Duration::from_secs(3);

/// Drains an Envoy, and ends it within seconds. Returns whether it ended.
pub async fn stop(process: Process, admin_socket: &Path) -> bool {
    tokio::select! {
        () = drain(admin_socket) => {}
        () = process.ended() => return true,
        () = tokio::time::sleep(DRAIN_TIME) => {}
    }
    process.signal(Signal::SIGTERM);
    if process.ended_within(TERM_TIME).await {
        return true;
    }
    tracing::warn!(pid = process.pid, "Envoy does not end; killing it");
    process.signal(Signal::SIGKILL);
    process.ended_within(KILL_TIME).await
}

/// Tells clients to close their connections, and waits until they have. Returns at once where Envoy
/// does not answer.
async fn drain(admin_socket: &Path) {
    for path in ["/healthcheck/fail", "/drain_listeners?graceful"] {
        if admin::request(admin_socket, Method::POST, path)
            .await
            .is_err()
        {
            return;
        }
    }
    while let Ok(connections) = connections(admin_socket).await
        && connections > 0
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Connections on listeners; those of the admin interface do not count.
async fn connections(admin_socket: &Path) -> std::io::Result<u64> {
    let filter = "/stats?filter=%5Elistener%5C.%5B%5Ea%5D.*%5C.downstream_cx_active%24";
    let text = admin::request(admin_socket, Method::GET, filter).await?;
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| !line.contains(".worker_"))
        .filter_map(|line| line.rsplit_once(": ")?.1.trim().parse::<u64>().ok())
        .sum())
}
