//! The managed Envoy, with the real binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::process::{Process, with_argument};
use super::{DataDir, Error, ManagedEnvoy, Options, bootstrap, bound, find, port_is_free};
use nix::sys::signal::Signal;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Far more than anything here needs: reached only by what never happens.
const LONG: Duration = Duration::from_mins(1);

/// A data folder whose Envoys are all gone when the test ends, however it ends.
struct Folder {
    dir: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn envoys(&self) -> Vec<Process> {
        let path = self.dir.path().canonicalize().unwrap();
        with_argument(&path.join("envoy-bootstrap.json"))
    }

    async fn start(&self, concurrency: u32) -> ManagedEnvoy {
        let dir = Arc::new(DataDir::lock(self.dir.path()).unwrap());
        ManagedEnvoy::start(dir, options(concurrency), CancellationToken::new())
            .await
            .unwrap()
    }

    /// The host dies: nothing is stopped, and the lock is free.
    async fn crash(&self, envoy: ManagedEnvoy) {
        drop(envoy);
        let free = async {
            while let Err(error) = DataDir::lock(self.dir.path()) {
                assert!(matches!(error, Error::Locked { .. }), "{error}");
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, free)
            .await
            .expect("the lock is free");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for envoy in self.envoys() {
            envoy.signal(Signal::SIGKILL);
        }
    }
}

fn options(concurrency: u32) -> Options {
    Options {
        binary: None,
        access_log: false,
        concurrency: Some(concurrency),
    }
}

fn pid(envoy: &ManagedEnvoy) -> i32 {
    envoy.pid().borrow().expect("it runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_answers_and_stops_without_a_trace() {
    let folder = Folder::new();
    let envoy = folder.start(1).await;
    assert!(!envoy.is_adopted());
    let info: serde_json::Value =
        serde_json::from_slice(&envoy.get("/server_info").await.unwrap()).unwrap();
    assert_eq!(info["node"]["id"], "default");
    assert_eq!(info["node"]["cluster"], "default");
    assert!(bound(envoy.admin_socket()).await.unwrap().is_empty());

    let process = Process::of(pid(&envoy)).unwrap();
    let own_group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(process.pid))).unwrap();
    assert_eq!(own_group.as_raw(), process.pid, "Ctrl-C does not reach it");
    envoy.stop().await;
    assert!(!process.is_alive());
    assert!(folder.envoys().is_empty());
    assert!(!folder.dir.path().join("envoy-process.json").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stops_with_the_token_of_the_host() {
    let folder = Folder::new();
    let dir = Arc::new(DataDir::lock(folder.dir.path()).unwrap());
    let shutdown = CancellationToken::new();
    let envoy = ManagedEnvoy::start(dir, options(1), shutdown.clone())
        .await
        .unwrap();
    shutdown.cancel();
    tokio::time::timeout(LONG, envoy.stopped())
        .await
        .expect("it stops");
    assert!(folder.envoys().is_empty());
}

/// A program that says a version and then neither answers nor ends.
fn silent_envoy(folder: &Path) -> PathBuf {
    let path = folder.join("silent-envoy");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo version: none\nkill -STOP $$\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_called_off_leaves_nothing() {
    let folder = Folder::new();
    let options = Options {
        binary: Some(silent_envoy(folder.dir.path())),
        ..options(1)
    };
    let dir = Arc::new(DataDir::lock(folder.dir.path()).unwrap());
    let shutdown = CancellationToken::new();
    let start = tokio::spawn(ManagedEnvoy::start(dir, options, shutdown.clone()));
    let record = folder.dir.path().join("envoy-process.json");
    let launched = async {
        while !record.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, launched).await.unwrap();
    shutdown.cancel();
    let error = start.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("told to stop"), "{error}");
    assert!(folder.envoys().is_empty());
    assert!(!record.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_orphan_of_a_crashed_host_is_adopted() {
    let folder = Folder::new();
    let first = folder.start(1).await;
    let orphan = pid(&first);
    folder.crash(first).await;
    assert!(Process::of(orphan).is_some(), "it outlives the host");

    let second = folder.start(1).await;
    assert!(second.is_adopted());
    assert_eq!(pid(&second), orphan);
    assert_eq!(folder.envoys().len(), 1);
    second.stop().await;
    assert!(folder.envoys().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_one_that_is_killed_is_replaced() {
    let folder = Folder::new();
    let first = folder.start(1).await;
    folder.crash(first).await;
    let second = folder.start(1).await;
    restarts_when_killed(&second).await;
    assert_eq!(folder.envoys().len(), 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_that_was_started_otherwise_is_replaced() {
    let folder = Folder::new();
    let first = folder.start(1).await;
    let orphan = Process::of(pid(&first)).unwrap();
    folder.crash(first).await;
    let second = folder.start(2).await;
    assert!(!second.is_adopted());
    assert!(!orphan.is_alive());
    assert_eq!(folder.envoys().len(), 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_without_a_record_is_replaced() {
    let folder = Folder::new();
    let first = folder.start(1).await;
    let orphan = Process::of(pid(&first)).unwrap();
    folder.crash(first).await;
    std::fs::remove_file(folder.dir.path().join("envoy-process.json")).unwrap();
    let second = folder.start(1).await;
    assert!(!orphan.is_alive());
    assert_eq!(folder.envoys().len(), 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_restarted_when_it_is_killed() {
    let folder = Folder::new();
    let envoy = folder.start(1).await;
    restarts_when_killed(&envoy).await;
    assert!(folder.dir.path().join("envoy.log.1").exists());
    assert_eq!(folder.envoys().len(), 1);
    envoy.stop().await;
    assert!(folder.envoys().is_empty());
}

async fn restarts_when_killed(envoy: &ManagedEnvoy) {
    let before = pid(envoy);
    Process::of(before).unwrap().signal(Signal::SIGKILL);
    let mut told = envoy.pid();
    let restarted = told.wait_for(|now| now.is_some_and(|now| now != before));
    tokio::time::timeout(LONG, restarted)
        .await
        .expect("it is restarted")
        .expect("somebody looks after it");
    envoy.get("/ready").await.expect("it answers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_envoy_is_said() {
    let folder = Folder::new();
    let dir = Arc::new(DataDir::lock(folder.dir.path()).unwrap());
    // `true` is content with `--version`, and ends.
    for (binary, word) in [
        ("/bin/true", "it ended"),
        ("/bin/false", "Envoy"),
        ("/no", "/no"),
    ] {
        let options = Options {
            binary: Some(binary.into()),
            ..options(1)
        };
        let error = ManagedEnvoy::start(dir.clone(), options, CancellationToken::new())
            .await
            .expect_err(binary)
            .to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[tokio::test]
async fn envoy_accepts_the_bootstrap_for_somebody_else() {
    let dir = tempfile::tempdir().unwrap();
    for address in [
        "127.0.0.1:18000",
        "chiton.example:18000",
        "unix:/tmp/xds.sock",
    ] {
        let file = dir.path().join("bootstrap.yaml");
        std::fs::write(&file, bootstrap(address, "ns/gateway", "y").unwrap()).unwrap();
        validate(&file).await;
    }
}

async fn validate(file: &Path) {
    let output = tokio::process::Command::new(find().unwrap())
        .args([
            "--mode",
            "validate",
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "-c",
        ])
        .arg(file)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("[warning]"), "{said}");
}

#[test]
fn a_port_is_taken_while_somebody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut address = listener.local_addr().unwrap();
    assert!(!port_is_free(address));
    address.set_ip([0, 0, 0, 0].into());
    assert!(!port_is_free(address), "also for all addresses");
    drop(listener);
    assert!(port_is_free(address));
}
