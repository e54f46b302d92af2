//! A host and a bare loop that serve the same, each with an Envoy of its own.

use crate::bare::Bare;
use crate::envoy::Envoy;
use crate::folder::{self, Folder, Plan};
use crate::host::{Host, Log};
use crate::relay;
use anyhow::Context as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Both, running and at rest.
#[derive(Debug)]
pub struct Pair {
    /// What is served.
    pub folder: Arc<Folder>,
    /// The host.
    pub host: Host,
    /// Its proxy.
    pub envoy: Envoy,
    /// The bare loop, which has the host's resources as the proxy got them.
    pub bare: Arc<Bare>,
    /// Its proxy.
    pub bare_envoy: Envoy,
}

impl Pair {
    /// Starts both on a new folder.
    pub async fn start(plan: Plan) -> anyhow::Result<Self> {
        let folder = Folder::write(plan)?;
        let (host, envoy) = serve(&folder, folder::data(&folder, 0), Log::Reads).await?;
        let port = relay::free_port()?;
        let mut bare_envoy = Envoy::start(port).await?;
        let bare = Bare::start(port, envoy.seen.acked().clone()).await?;
        bare_envoy
            .seen
            .until_all(|seen| folder.is_in(seen))
            .await
            .context("the bare loop's proxy")?;
        Ok(Self {
            folder: Arc::new(folder),
            host,
            envoy,
            bare: Arc::new(bare),
            bare_envoy,
        })
    }
}

/// Starts a host and its proxy, and waits until the proxy has everything.
pub async fn serve(folder: &Folder, data: PathBuf, log: Log) -> anyhow::Result<(Host, Envoy)> {
    let port = relay::free_port()?;
    let mut envoy = Envoy::start(port).await?;
    let host = Host::start(folder, &data, port, log)?;
    let all = envoy.seen.until_all(|seen| folder.is_in(seen)).await;
    all.with_context(|| format!("the host's proxy; the host says: {}", tail(&host.output())))?;
    Ok((host, envoy))
}

/// The last lines of a log.
pub fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(20);
    lines.get(from..).unwrap_or_default().join("\n")
}
