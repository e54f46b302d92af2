//! A process that may or may not be a child of this one.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How often a process that is no child is looked at. A child is waited for instead.
const POLL: Duration = Duration::from_millis(50);

/// One process, even where its id is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// When it started, in clock ticks after boot.
    pub start_time: u64,
}

impl Process {
    /// The process that has this id now, if it lives.
    pub fn of(pid: i32) -> Option<Self> {
        let (state, start_time) = stat(pid)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, start_time })
    }

    /// Whether it lives.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal, if it lives.
    pub fn signal(self, signal: Signal) {
        if self.is_alive()
            && let Err(error) = kill(Pid::from_raw(self.pid), signal)
        {
            tracing::debug!(pid = self.pid, %signal, %error, "signal was not sent");
        }
    }

    /// Waits until it has ended.
    pub async fn ended(self) {
        while self.is_alive() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until it has ended, for a time. Returns whether it has.
    pub async fn ended_within(self, time: Duration) -> bool {
        tokio::time::timeout(time, self.ended()).await.is_ok()
    }

    /// Whether one of its arguments is this path.
    pub fn has_argument(self, path: &Path) -> bool {
        std::fs::read(format!("/proc/{}/cmdline", self.pid)).is_ok_and(|line| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument == path.as_os_str().as_bytes())
        })
    }
}

/// Every process of which one argument is this path.
pub fn with_argument(path: &Path) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::of)
        .filter(|process| process.has_argument(path))
        .collect()
}

/// State and start time of a process (`proc_pid_stat(5)`, fields 3 and 22).
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, and may hold anything.
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn a_process_lives_until_it_ends_also_unreaped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap()).expect("it lives");
        assert!(process.is_alive());
        let other = Process {
            start_time: process.start_time + 1,
            ..process
        };
        assert!(!other.is_alive(), "the id alone does not name a process");
        process.signal(Signal::SIGKILL);
        process.ended().await;
        child.wait().unwrap();
    }

    #[test]
    fn this_process_is_found_by_its_argument() {
        let own = std::env::args_os().next().expect("a name");
        let found = with_argument(Path::new(&own));
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(found.iter().any(|process| process.pid == pid));
        assert!(with_argument(Path::new("/no/such/argument")).is_empty());
    }
}
