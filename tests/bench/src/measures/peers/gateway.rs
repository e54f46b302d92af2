//! Envoy Gateway, with its file provider and an Envoy of its own on this host.
//!
//! It binds fixed ports, so it must have a network of its own (`tests/tools/own-network.sh`).

use anyhow::Context as _;
use chiton_tests::paths;
use chiton_tests::process::{Process, kill_now};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tempfile::TempDir;
use tokio::process::Command;

/// The Envoy that it is told to run: the one that everything here runs with.
const ENVOY: &str = "1.40.0";

/// A running Envoy Gateway. It ends with this value, and so does its Envoy.
#[derive(Debug)]
pub struct Gateway {
    process: Process,
    dir: TempDir,
    /// When its process was started.
    pub started: Instant,
}

impl Gateway {
    /// Starts it on a folder.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let binary: PathBuf = std::env::var_os("ENVOY_GATEWAY")
            .context("no Envoy Gateway: run `make bench-peers`")?
            .into();
        let dir = tempfile::Builder::new().prefix("chiton-bench-").tempdir()?;
        let at = |name: &str| dir.path().join(name);
        // It looks for this file before it downloads an Envoy of that version.
        let bin = at("data").join("envoy-versions").join(ENVOY).join("bin");
        std::fs::create_dir_all(&bin)?;
        for name in ["config", "state", "run"] {
            std::fs::create_dir_all(at(name))?;
        }
        let script = format!(
            "#!/bin/sh\necho $$ > {}\nexec {} \"$@\"\n",
            at("envoy.pid").display(),
            paths::envoy()?.display()
        );
        std::fs::write(bin.join("envoy"), script)?;
        std::fs::set_permissions(bin.join("envoy"), PermissionsExt::from_mode(0o755))?;
        std::fs::write(at("config.yaml"), config(folder, dir.path()))?;

        let certificates = Command::new(&binary)
            .args(["certgen", "--local", "--config-home"])
            .arg(at("config"))
            .output()
            .await?;
        anyhow::ensure!(
            certificates.status.success(),
            "no certificates: {}",
            String::from_utf8_lossy(&certificates.stderr)
        );
        let mut command = Command::new(&binary);
        command
            .args(["server", "--config-path"])
            .arg(at("config.yaml"))
            // The version that its default image names cannot be read by this release.
            .env("ENVOY_VERSION", ENVOY);
        let started = Instant::now();
        let process = Process::start(&mut command, &at("gateway.log"))?;
        Ok(Self {
            process,
            dir,
            started,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.process
            .pid()
            .with_context(|| format!("Envoy Gateway has ended: {}", self.process.output()))
    }

    fn envoy(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.dir.path().join("envoy.pid")).ok()?;
        text.trim().parse().ok()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(pid) = self.process.pid() {
            kill_now(pid);
        }
        if let Some(pid) = self.envoy() {
            kill_now(pid);
        }
    }
}

fn config(folder: &Path, home: &Path) -> String {
    let (folder, home) = (folder.display(), home.display());
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
provider:
  type: Custom
  custom:
    resource:
      type: File
      file:
        paths: [\"{folder}\"]
    infrastructure:
      type: Host
      host:
        configHome: {home}/config
        dataHome: {home}/data
        stateHome: {home}/state
        runtimeDir: {home}/run
logging:
  level:
    default: error
extensionApis:
  enableBackend: true
"
    )
}
