//! The folder that holds what must outlive the host, used by one host at a time.

use super::Error;
use crate::whole_file;
use backon::{BackoffBuilder, ExponentialBuilder};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long [`DataDir::lock_soon`] tries, in all and at first. A process that was killed holds its lock
/// until the kernel has taken it apart, which takes longer the more memory it had.
const LOCK_TIME: Duration = Duration::from_secs(2);
const LOCK_FIRST: Duration = Duration::from_millis(20);

/// Longest path of a Unix socket on Linux, without the closing zero (`unix(7)`).
const MAX_SOCKET_PATH: usize = 107;

/// The data folder, locked until this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl DataDir {
    /// As [`DataDir::lock`], but waits a moment for a process that is just ending.
    pub async fn lock_soon(path: &Path) -> Result<Self, Error> {
        let mut delays = ExponentialBuilder::new()
            .with_min_delay(LOCK_FIRST)
            .with_total_delay(Some(LOCK_TIME))
            .without_max_times()
            .build();
        loop {
            match (Self::lock(path), delays.next()) {
                (Err(Error::Locked { .. }), Some(delay)) => tokio::time::sleep(delay).await,
                (result, _) => return result,
            }
        }
    }

    /// Makes the folder if need be, for its owner only, and locks it. Fails if another process has it:
    /// the error names the process.
    pub fn lock(path: &Path) -> Result<Self, Error> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(file_error("make data folder", path))?;
        // Envoy has another working folder, and a path that is compared must have one form.
        let path = path
            .canonicalize()
            .map_err(file_error("use data folder", path))?;
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .map_err(file_error("open", &file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    path,
                    holder: holder(&mut lock),
                });
            }
            Err(TryLockError::Error(error)) => return Err(file_error("lock", &file)(error)),
        }
        write_holder(&mut lock).map_err(file_error("write", &file))?;
        let dir = Self { path, _lock: lock };
        if dir.admin_socket().as_os_str().len() > MAX_SOCKET_PATH {
            return Err(Error::LongPath { path: dir.path });
        }
        Ok(dir)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket on which the host serves the managed Envoy.
    #[must_use]
    pub fn xds_socket(&self) -> PathBuf {
        self.path.join("xds.sock")
    }

    /// The managed Envoy's admin interface.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.path.join("envoy-admin.sock")
    }

    /// What the managed Envoy says. The log before it is `envoy.log.1`.
    #[must_use]
    pub fn envoy_log(&self) -> PathBuf {
        self.path.join("envoy.log")
    }

    /// What was served, for the next host.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    pub(super) fn bootstrap(&self) -> PathBuf {
        self.path.join("envoy-bootstrap.json")
    }

    pub(super) fn record(&self) -> PathBuf {
        self.path.join("envoy-process.json")
    }
}

pub(super) fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |reason| Error::File { what, path, reason }
}

/// Writes a file so that it is there whole or not at all, readable by its owner only.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    whole_file::replace(path, |out| out.write_all(text.as_bytes()))
        .map_err(file_error("write", path))
}

fn write_holder(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    write!(lock, "{}", std::process::id())
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(20).read_to_string(&mut text) {
        Ok(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => text,
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let first = DataDir::lock(&path).unwrap();
        let error = DataDir::lock(&path).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert!(error.contains("--data-dir"), "{error}");
        drop(first);
        DataDir::lock(&path).unwrap();
    }

    #[tokio::test]
    async fn who_comes_while_the_first_ends_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::lock(dir.path()).unwrap();
        let second = DataDir::lock_soon(dir.path());
        let (second, ()) = tokio::join!(second, async {
            // The second has found it locked by now: it was polled first.
            drop(first);
        });
        second.unwrap();
    }

    #[test]
    fn what_is_wrong_with_a_folder_is_said_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DataDir::lock(&file.path().join("below")).unwrap_err();
        let text = format!("{:#}", anyhow::Error::from(error));
        assert_eq!(text.matches("os error").count(), 1, "{text}");
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = DataDir::lock(&dir.path().join("x".repeat(120))).unwrap_err();
        assert!(matches!(error, Error::LongPath { .. }), "{error}");
    }
}
