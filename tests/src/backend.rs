//! The example backend.

use crate::process::Process;
use crate::{http, paths, wait};
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::process::Command;

/// A running example backend: one process that answers under several names.
#[derive(Debug)]
pub struct Backend {
    _process: Process,
    ports: BTreeMap<String, u16>,
}

impl Backend {
    /// Starts it with a free port of 127.0.0.1 for each name; its log goes to `dir`.
    pub async fn start(dir: &Path, names: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(paths::binary("chiton-example-backend")?);
        command.args(names.iter().map(|name| format!("{name}=127.0.0.1:0")));
        let mut process = Process::start(&mut command, &dir.join("backend.log"))?;
        let ports = wait::until("the backend listens", async || {
            if let Some(status) = process.ended() {
                return Err(format!("it ended with {status}: {}", process.output()));
            }
            let ports: BTreeMap<String, u16> = process.output().lines().filter_map(port).collect();
            if ports.len() == names.len() {
                Ok(ports)
            } else {
                Err(process.output())
            }
        })
        .await?;
        Ok(Self {
            _process: process,
            ports,
        })
    }

    /// The port of a name.
    pub fn port(&self, name: &str) -> anyhow::Result<u16> {
        self.ports
            .get(name)
            .copied()
            .with_context(|| format!("the backend has no name {name}"))
    }

    /// How many requests a name has had.
    pub async fn count(&self, name: &str) -> anyhow::Result<u64> {
        let answer = http::get(self.port(name)?, "/_count").send().await?;
        answer.json()["count"]
            .as_u64()
            .with_context(|| format!("no count: {answer:?}"))
    }
}

/// `NAME 127.0.0.1:PORT`.
fn port(line: &str) -> Option<(String, u16)> {
    let (name, address) = line.split_once(' ')?;
    let port = address.rsplit_once(':')?.1.parse().ok()?;
    Some((name.to_owned(), port))
}
