//! A Gateway with three backends: the ground on which most end-to-end tests stand.

use crate::http::{self, Answer, Ask};
use crate::{Backend, Host, paths};
use std::fmt::Write as _;

/// A host with the GatewayClass `chiton`, the Gateway `gateway` (one HTTP listener `http`) and the
/// Backends `a`, `b` and `c`, all in the namespace `default`.
#[derive(Debug)]
pub struct World {
    /// The host.
    pub host: Host,
    /// The backends' process.
    pub backend: Backend,
    /// The listener's port.
    pub port: u16,
}

impl World {
    /// Starts it with one more file of manifests; in it `$PORT` is the Gateway's port, and `$A`, `$B`,
    /// `$C` are the backends' ports.
    pub async fn start(manifests: &str) -> anyhow::Result<Self> {
        Self::start_with(manifests, &[]).await
    }

    /// As [`World::start`], with more arguments for `chiton serve`.
    pub async fn start_with(manifests: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let backend = Backend::start(dir.path(), &["a", "b", "c"]).await?;
        let [port] = paths::free_ports()?;
        let base = base(port, &backend)?;
        let manifests = fill(manifests, port, &backend)?;
        let files = [
            ("base.yaml", base.as_str()),
            ("test.yaml", manifests.as_str()),
        ];
        let host = Host::start_with(&files, arguments).await?;
        Ok(Self {
            host,
            backend,
            port,
        })
    }

    /// Replaces the file that the world was started with.
    pub fn replace(&self, manifests: &str) -> anyhow::Result<()> {
        self.write("test.yaml", manifests)
    }

    /// Writes another file; names of ports are filled in as in [`World::start`].
    pub fn write(&self, name: &str, manifests: &str) -> anyhow::Result<()> {
        self.host
            .write(name, &fill(manifests, self.port, &self.backend)?)
    }

    /// A GET of a path at the Gateway.
    #[must_use]
    pub fn get(&self, path: &str) -> Ask {
        http::get(self.port, path)
    }

    /// Waits until a GET of a path at the Gateway is answered by this backend.
    pub async fn served_by(&self, path: &str, backend: &str) -> anyhow::Result<Answer> {
        self.host
            .eventually(&self.get(path), |answer| {
                let name = answer.backend();
                if name == backend {
                    Ok(())
                } else {
                    Err(format!("answered by {name:?}, not {backend:?}"))
                }
            })
            .await
    }

    /// Waits until a request is answered with this status.
    pub async fn status(&self, ask: &Ask, status: u16) -> anyhow::Result<Answer> {
        self.host
            .eventually(ask, |answer| {
                if answer.status == status {
                    Ok(())
                } else {
                    Err(format!("not {status}"))
                }
            })
            .await
    }
}

fn base(port: u16, backend: &Backend) -> anyhow::Result<String> {
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: chiton}}
spec: {{controllerName: chiton.dev/gateway-controller}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: gateway}}
spec:
  gatewayClassName: chiton
  listeners:
    - {{name: http, protocol: HTTP, port: {port}}}
"
    );
    for name in ["a", "b", "c"] {
        write!(
            text,
            "---
apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {{name: {name}}}
spec: {{endpoints: [{{host: 127.0.0.1, port: {}}}]}}
",
            backend.port(name)?
        )?;
    }
    Ok(text)
}

fn fill(manifests: &str, port: u16, backend: &Backend) -> anyhow::Result<String> {
    Ok(manifests
        .replace("$PORT", &port.to_string())
        .replace("$A", &backend.port("a")?.to_string())
        .replace("$B", &backend.port("b")?.to_string())
        .replace("$C", &backend.port("c")?.to_string()))
}
