//! A proxy: the real Envoy, with the bootstrap that `chiton bootstrap` prints.

use crate::relay::Relay;
use crate::seen::Seen;
use anyhow::Context as _;
use chiton_tests::process::Process;
use chiton_tests::{command, paths};
use tempfile::TempDir;
use tokio::process::Command;

/// A running Envoy behind a relay. It ends with this value.
#[derive(Debug)]
pub struct Envoy {
    /// What passes between it and its server.
    pub seen: Seen,
    process: Process,
    _relay: Relay,
    _dir: TempDir,
}

impl Envoy {
    /// Starts an Envoy of the fleet `default` whose server listens, now or later, on a port, and
    /// waits until its stream has reached the relay.
    pub async fn start(server: u16) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("chiton-bench-").tempdir()?;
        let (relay, passed) = Relay::start(server).await?;
        let mut seen = Seen::new(passed);
        let bootstrap = command::chiton(&["bootstrap", "--xds-address", &relay.address()]).await?;
        anyhow::ensure!(bootstrap.code == Some(0), "{}", bootstrap.stderr);
        let file = dir.path().join("bootstrap.json");
        std::fs::write(&file, bootstrap.stdout)?;
        let mut command = Command::new(paths::envoy()?);
        // One worker: nobody sends requests, and each would only have its copy of the tables.
        command
            .args(["--use-dynamic-base-id", "--concurrency", "1"])
            .args(["--log-level", "warning", "--config-path"])
            .arg(&file);
        let process = Process::start(&mut command, &dir.path().join("envoy.log"))?;
        seen.opened()
            .await
            .with_context(|| format!("Envoy says: {}", process.output()))?;
        Ok(Self {
            seen,
            process,
            _relay: relay,
            _dir: dir,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.process.pid().context("Envoy has ended")
    }
}
