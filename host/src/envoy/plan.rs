//! How Envoy is started, or adopted.

use super::data_dir::{DataDir, file_error, write_whole};
use super::managed::Options;
use super::process::{self, Process};
use super::record::Record;
use super::stop::stop;
use super::{Error, admin, binary, bootstrap};
use hyper::Method;
use nix::sys::signal::Signal;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// How long Envoy may take until its admin interface answers.
const START_TIME: Duration = Duration::from_secs(15);
/// How long listeners that are removed or changed drain (`--drain-time-s`).
const LISTENER_DRAIN_SECONDS: &str = "10";
/// Lines of Envoy's log that are repeated when it ends.
const LAST_LINES: usize = 10;
/// Bytes of Envoy's log that are read for them.
const LAST_BYTES: u64 = 16 * 1024;

/// How this host starts Envoy.
#[derive(Debug)]
pub struct Plan {
    /// Where its files are.
    pub dir: Arc<DataDir>,
    binary: PathBuf,
    arguments: Vec<OsString>,
    bootstrap: String,
    access_log: bool,
    fingerprint: String,
}

impl Plan {
    /// Finds the binary and settles how it is run.
    pub async fn new(dir: Arc<DataDir>, options: Options) -> Result<Self, Error> {
        let binary = match options.binary {
            Some(binary) => binary,
            None => binary::find()?,
        };
        let version = version(&binary).await?;
        let bootstrap = bootstrap::managed(&dir.xds_socket(), &dir.admin_socket());
        let arguments = arguments(&dir, options.concurrency);
        let mut digest = Sha256::new();
        let words = arguments.iter().map(|word| word.as_encoded_bytes());
        let access_log: &[u8] = if options.access_log { b"log" } else { b"" };
        for part in [version.as_bytes(), bootstrap.as_bytes(), access_log]
            .into_iter()
            .chain(words)
        {
            digest.update(part);
            digest.update([0]);
        }
        Ok(Self {
            dir,
            binary,
            arguments,
            bootstrap,
            access_log: options.access_log,
            fingerprint: format!("{:x}", digest.finalize()),
        })
    }

    /// The Envoy of an earlier host, if it fits. Any that does not is drained and stopped.
    pub async fn adopt(&self) -> Result<Option<Process>, Error> {
        let bootstrap = self.dir.bootstrap();
        let record = Record::read(&self.dir);
        let mut adopted = None;
        // The record may be missing: the host can have died before it wrote it.
        for process in process::with_argument(&bootstrap) {
            let fits = record.as_ref().is_some_and(|record| {
                record.pid == process.pid
                    && record.start_time == process.start_time
                    && record.fingerprint == self.fingerprint
            });
            if fits && adopted.is_none() && self.answers().await {
                tracing::info!(pid = process.pid, "adopted the Envoy of an earlier host");
                adopted = Some(process);
                continue;
            }
            tracing::info!(
                pid = process.pid,
                "draining the Envoy of an earlier host, which was started otherwise"
            );
            if !stop(process, &self.dir.admin_socket()).await {
                return Err(Error::Stuck(process.pid));
            }
        }
        Ok(adopted)
    }

    /// Starts Envoy and waits until its admin interface answers. On shutdown it is ended again.
    pub async fn launch(&self, shutdown: &CancellationToken) -> Result<Running, Error> {
        write_whole(&self.dir.bootstrap(), &self.bootstrap)?;
        let mut child = self.spawn()?;
        let process = child
            .id()
            .and_then(|pid| Process::of(i32::try_from(pid).ok()?));
        if let Some(process) = process {
            let record = Record {
                pid: process.pid,
                start_time: process.start_time,
                fingerprint: self.fingerprint.clone(),
            };
            if let Err(error) = record.write(&self.dir) {
                process.signal(Signal::SIGKILL);
                return Err(error);
            }
        }
        let up = tokio::select! {
            ended = child.wait() => Err(match ended {
                Ok(status) => format!("it ended with {status}"),
                Err(error) => error.to_string(),
            }),
            () = shutdown.cancelled() => Err("the host was told to stop".to_owned()),
            up = tokio::time::timeout(START_TIME, self.up()) => {
                up.map_err(|_| format!("it did not answer within {START_TIME:?}"))
            }
        };
        match (up, process) {
            (Ok(()), Some(process)) => {
                tracing::info!(pid = process.pid, binary = %self.binary.display(), "Envoy runs");
                Ok(Running::Child(child, process))
            }
            (up, process) => {
                if let Some(process) = process {
                    process.signal(Signal::SIGKILL);
                }
                let _ = child.wait().await;
                let _ = Record::remove(&self.dir);
                Err(Error::Start {
                    reason: up.err().unwrap_or_else(|| "it ended".to_owned()),
                    log: self.last_lines(),
                })
            }
        }
    }

    fn spawn(&self) -> Result<Child, Error> {
        let log = self.dir.envoy_log();
        let _ = std::fs::rename(&log, log.with_extension("log.1"));
        let stderr = File::create(&log).map_err(file_error("make", &log))?;
        let mut command = std::process::Command::new(&self.binary);
        command
            .args(&self.arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(if self.access_log {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stderr(stderr)
            // Ctrl-C in the terminal reaches the host alone, which then drains Envoy.
            .process_group(0);
        Command::from(command)
            .spawn()
            .map_err(file_error("run", &self.binary))
    }

    async fn up(&self) {
        while !self.answers().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn answers(&self) -> bool {
        admin::request(&self.dir.admin_socket(), Method::GET, "/ready")
            .await
            .is_ok()
    }

    /// What Envoy last said.
    pub fn last_lines(&self) -> String {
        last_lines(&self.dir.envoy_log()).unwrap_or_default()
    }
}

fn arguments(dir: &DataDir, concurrency: Option<u32>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "--config-path".into(),
        dir.bootstrap().into(),
        // Hot restart is not used. Without it, Envoy needs no base id, so that none can clash, and
        // leaves no shared memory behind when it is killed.
        "--disable-hot-restart".into(),
        "--drain-time-s".into(),
        LISTENER_DRAIN_SECONDS.into(),
        // Every response of a draining listener asks its client to close, not a growing share of them.
        "--drain-strategy".into(),
        "immediate".into(),
        "--log-level".into(),
        "warning".into(),
    ];
    if let Some(concurrency) = concurrency {
        arguments.extend(["--concurrency".into(), concurrency.to_string().into()]);
    }
    arguments
}

async fn version(binary: &Path) -> Result<String, Error> {
    let output = Command::new(binary)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(file_error("run", binary))?;
    if !output.status.success() {
        return Err(Error::NoBinary(format!(
            "{} --version failed with {}; it does not look like Envoy",
            binary.display(),
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .find(|line| line.contains("version:"))
        .unwrap_or_default()
        .trim()
        .to_owned())
}

/// An Envoy that runs.
#[derive(Debug)]
pub enum Running {
    /// Started by this process, which must reap it.
    Child(Child, Process),
    /// Started by an earlier host.
    Adopted(Process),
}

impl Running {
    /// Its process.
    pub fn process(&self) -> Process {
        match self {
            Self::Child(_, process) | Self::Adopted(process) => *process,
        }
    }

    /// Waits until it ends, and says how.
    pub async fn ended(&mut self) -> String {
        match self {
            Self::Child(child, _) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Adopted(process) => {
                process.ended().await;
                "unknown status".to_owned()
            }
        }
    }
}

fn last_lines(log: &Path) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    Ok(lines.get(first..).unwrap_or_default().join("\n"))
}
