//! Processes that end with the value that stands for them.

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};

/// A running process whose output goes to a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command; both its outputs go to `log`.
    pub fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!("cannot start {}", command.as_std().get_program().display())
            })?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Everything it has printed.
    #[must_use]
    pub fn output(&self) -> String {
        std::fs::read(&self.log)
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Its process id; none once it has ended.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid().context("the process has ended")?;
        kill(Pid::from_raw(pid.try_into()?), signal)?;
        Ok(())
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(crate::wait::at_most("the process's end", self.child.wait()).await??)
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Whether a process with this id is there and no zombie.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with('Z'))
    })
}

/// Ends a process by SIGKILL; one that is gone already is fine.
pub fn kill_now(pid: u32) {
    if let Ok(pid) = pid.try_into() {
        // It may have ended in between.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
