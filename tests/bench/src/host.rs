//! The one that is measured: `chiton serve` on a folder, without an Envoy of its own.

use crate::folder::Folder;
use crate::relay;
use anyhow::Context as _;
use chiton_tests::process::Process;
use chiton_tests::{Metrics, http, paths, wait};
use nix::sys::signal::Signal;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::process::Command;

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// What an operator's host logs.
    Usual,
    /// Also when an object was read.
    Reads,
}

/// A running host. It ends with this value.
#[derive(Debug)]
pub struct Host {
    process: Process,
    admin: u16,
    log: PathBuf,
    /// When its process was started.
    pub started: Instant,
}

impl Host {
    /// Starts a host that serves a folder on a port. Does not wait for anything.
    pub fn start(folder: &Folder, data: &Path, port: u16, log: Log) -> anyhow::Result<Self> {
        let admin = relay::free_port()?;
        let mut command = Command::new(paths::binary("chiton")?);
        command
            .args(["serve", "--envoy", "none", "--bind-address", "127.0.0.1"])
            .args(["--xds-address", &format!("127.0.0.1:{port}")])
            .args(["--admin-address", &format!("127.0.0.1:{admin}")])
            .arg("--manifests")
            .arg(folder.path())
            .arg("--data-dir")
            .arg(data)
            .env(
                "RUST_LOG",
                match log {
                    Log::Usual => "info",
                    Log::Reads => "info,chiton::watcher=debug",
                },
            );
        let file = data.with_extension("log");
        let started = Instant::now();
        let process = Process::start(&mut command, &file)?;
        Ok(Self {
            process,
            admin,
            log: file,
            started,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.process.pid().context("the host has ended")
    }

    /// Its metrics.
    pub async fn metrics(&self) -> anyhow::Result<Metrics> {
        let answer = http::get(self.admin, "/metrics").send().await?;
        Ok(Metrics::parse(&String::from_utf8_lossy(&answer.body)))
    }

    /// What it has printed.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// The end of its log, from a length that it had before.
    pub fn log_since(&self, length: u64) -> anyhow::Result<String> {
        let mut file = std::fs::File::open(&self.log)?;
        file.seek(SeekFrom::Start(length))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// How long its log is now.
    pub fn log_length(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.log)?.len())
    }

    /// Stops it by SIGTERM, as an operator does, and waits for its end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::SIGTERM)?;
        let process = &mut self.process;
        wait::until("the host ends", async || process.ended().ok_or("it runs")).await?;
        Ok(())
    }
}
