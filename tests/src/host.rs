//! A running `chiton serve` with its Envoy.

use crate::http::{self, Answer, Ask};
use crate::metrics::Metrics;
use crate::process::{Process, is_running, kill_now};
use crate::{paths, wait};
use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::process::Command;

/// A host, its Envoy, and a folder of manifests of its own.
#[derive(Debug)]
pub struct Host {
    dir: TempDir,
    process: Process,
    admin: u16,
    arguments: Vec<String>,
}

impl Host {
    /// Starts a host with a managed Envoy on the manifests, given as file names and texts, and waits
    /// until it is ready.
    pub async fn start(files: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_with(files, &[]).await
    }

    /// As [`Host::start`], with more arguments for `chiton serve`.
    pub async fn start_with(files: &[(&str, &str)], arguments: &[&str]) -> anyhow::Result<Self> {
        let arguments = [arguments, &["--bind-address", "127.0.0.1"]].concat();
        Self::launch(files, &arguments).await
    }

    /// As [`Host::start`], but listeners are bound to the addresses that the Gateways ask for, which
    /// must be loopback addresses.
    pub async fn start_unbound(files: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::launch(files, &[]).await
    }

    async fn launch(files: &[(&str, &str)], arguments: &[&str]) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("chiton-test-").tempdir()?;
        std::fs::create_dir(dir.path().join("manifests"))?;
        for (name, text) in files {
            write_file(&dir.path().join("manifests").join(name), text)?;
        }
        let [admin] = paths::free_ports()?;
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let process = spawn(dir.path(), admin, &arguments)?;
        let mut host = Self {
            dir,
            process,
            admin,
            arguments,
        };
        host.ready().await?;
        Ok(host)
    }

    /// Starts the host again in the same folders, after it ended.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.launch_again()?;
        self.ready().await
    }

    /// As [`Host::start_again`], but does not wait until it is ready.
    pub fn launch_again(&mut self) -> anyhow::Result<()> {
        self.process = spawn(self.dir.path(), self.admin, &self.arguments)?;
        Ok(())
    }

    /// The arguments of the next start, after those that every host has.
    pub fn set_arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(ToString::to_string).collect();
    }

    /// The checkpoint's file.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.data_dir().join("checkpoint")
    }

    /// Waits until the checkpoint holds the newest epoch.
    pub async fn saved(&self) -> anyhow::Result<()> {
        wait::until("the checkpoint holds the newest epoch", async || {
            let metrics = Metrics::of(self).await;
            let metrics = metrics.map_err(|error| format!("{error:#}"))?;
            let saved = metrics.count("chiton_checkpoint_epoch", &[]);
            let epoch = metrics.count("chiton_epochs_total", &[]);
            if saved == epoch && epoch > 0 {
                Ok(())
            } else {
                Err(format!("epoch {saved} of {epoch}"))
            }
        })
        .await
    }

    /// The folder that everything of this host is in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of manifests.
    #[must_use]
    pub fn manifests(&self) -> PathBuf {
        self.dir.path().join("manifests")
    }

    /// The data folder.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Writes a manifest as a careful editor does: beside the file, then renamed over it.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        write_file(&self.manifests().join(name), text)
    }

    /// Removes a manifest.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        std::fs::remove_file(self.manifests().join(name))
            .with_context(|| format!("removing {name}"))
    }

    /// The port of the admin server.
    #[must_use]
    pub fn admin_port(&self) -> u16 {
        self.admin
    }

    /// GETs from the admin server.
    pub async fn admin(&self, path: &str) -> anyhow::Result<Answer> {
        http::get(self.admin, path).send().await
    }

    /// The host's process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Process id of the managed Envoy.
    pub fn envoy_pid(&self) -> anyhow::Result<u32> {
        let path = self.data_dir().join("envoy-process.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let record: Value = serde_json::from_str(&text)?;
        let pid = record["pid"].as_u64().context("the record has no pid")?;
        Ok(pid.try_into()?)
    }

    /// Everything that the host has printed.
    #[must_use]
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Counts of refused responses from the metrics, those that are not zero.
    pub async fn nacks(&self) -> anyhow::Result<Vec<String>> {
        let metrics = self.admin("/metrics").await?;
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let counts: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("chiton_xds_nacks_total{"))
            .collect();
        if counts.is_empty() {
            bail!("no metric counts refused responses: {text}");
        }
        let bad = counts.iter().filter(|line| !line.ends_with(" 0"));
        Ok(bad.map(ToString::to_string).collect())
    }

    /// Fails unless one proxy is connected and has acknowledged everything that it was sent.
    pub async fn acked(&self) -> anyhow::Result<()> {
        let proxies = self.admin("/api/v1/proxies").await?.json();
        let types = &proxies[0]["types"];
        let all = types.as_object().context("no proxy is connected")?;
        match all.iter().find(|(_, it)| it["sent"] != it["acked"]) {
            None => Ok(()),
            Some((kind, counts)) => bail!("{kind} is not acknowledged: {counts}"),
        }
    }

    /// One object's status from the admin server; null if it has none.
    pub async fn object(&self, kind: &str, name: &str) -> anyhow::Result<Value> {
        let objects = self.admin("/api/v1/objects").await?.json();
        let objects = objects
            .as_array()
            .context("the admin server gave no list")?;
        Ok(objects
            .iter()
            .find(|object| object["kind"] == kind && object["name"] == name)
            .cloned()
            .unwrap_or_default())
    }

    /// Waits until a condition of an object has this status (`True`, `False`) wherever it stands, and
    /// returns its reasons and messages.
    pub async fn condition(
        &self,
        kind: &str,
        name: &str,
        r#type: &str,
        status: &str,
    ) -> anyhow::Result<String> {
        wait::until(&format!("{kind} {name} is {type}={status}"), async || {
            let object = self
                .object(kind, name)
                .await
                .map_err(|error| format!("{error:#}"))?;
            let empty = Vec::new();
            let all = object["conditions"].as_array().unwrap_or(&empty);
            let of_type: Vec<&Value> = all
                .iter()
                .filter(|condition| condition["type"] == r#type)
                .collect();
            if of_type.is_empty()
                || of_type
                    .iter()
                    .any(|condition| condition["status"] != status)
            {
                return Err(format!("{object:#}\n{}", self.process.output()));
            }
            let text = |condition: &&Value| {
                format!(
                    "{}: {}",
                    condition["reason"].as_str().unwrap_or_default(),
                    condition["message"].as_str().unwrap_or_default()
                )
            };
            Ok(of_type.iter().map(text).collect::<Vec<_>>().join("\n"))
        })
        .await
    }

    /// Waits until an object is `Programmed`.
    pub async fn programmed(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        self.condition(kind, name, "Programmed", "True")
            .await
            .map(drop)
    }

    /// Sends a request until the answer is as it should be; `check` says what is wrong with it.
    pub async fn eventually(
        &self,
        ask: &Ask,
        check: impl Fn(&Answer) -> Result<(), String>,
    ) -> anyhow::Result<Answer> {
        wait::until("the answer is as it should be", async || {
            let answer = ask
                .send()
                .await
                .map_err(|error| format!("{ask:?}: {error:#}"))?;
            check(&answer).map_err(|error| format!("{ask:?}: {error}: {answer:?}"))?;
            Ok::<_, String>(answer)
        })
        .await
        .with_context(|| self.process.output())
    }

    /// Versions of a module as the admin server shows them.
    pub async fn modules(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        let all = self.admin("/api/v1/modules").await?.json();
        let all = all.as_array().context("the admin server gave no list")?;
        let of_name = all.iter().filter(|module| module["name"] == name);
        Ok(of_name.cloned().collect())
    }

    /// Waits until a version of a module has this state, and returns what is shown of it.
    pub async fn module(&self, name: &str, version: &str, state: &str) -> anyhow::Result<Value> {
        wait::until(&format!("module {name} {version} is {state}"), async || {
            let modules = self
                .modules(name)
                .await
                .map_err(|error| format!("{error:#}"))?;
            let is = |module: &&Value| module["version"] == version && module["state"] == state;
            modules
                .iter()
                .find(is)
                .cloned()
                .ok_or_else(|| format!("{modules:#?}"))
        })
        .await
        .with_context(|| self.process.output())
    }

    /// Ends the host, and not its Envoy, by SIGKILL.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::SIGKILL)?;
        self.process.wait().await.map(drop)
    }

    /// Stops host and Envoy by SIGTERM and checks that both are gone.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.stop_by(Signal::SIGTERM).await
    }

    /// As [`Host::stop`], by any signal; it can be started again.
    pub async fn stop_by(&mut self, signal: Signal) -> anyhow::Result<()> {
        let envoy = self.envoy_pid().ok();
        self.process.signal(signal)?;
        let status = self.process.wait().await?;
        if !status.success() {
            bail!("the host ended with {status}: {}", self.process.output());
        }
        match envoy {
            Some(pid) if is_running(pid) => {
                bail!("Envoy {pid} is still there after the host's end")
            }
            _ => Ok(()),
        }
    }

    /// Waits until the host is ready.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        let admin = self.admin;
        let process = &mut self.process;
        wait::until("the host is ready", async || {
            if let Some(status) = process.ended() {
                // Nothing to wait for: the rest of the patience would only hide it.
                return Ok(Err(format!(
                    "the host ended with {status}: {}",
                    process.output()
                )));
            }
            match http::get(admin, "/readyz").send().await {
                Ok(answer) if answer.status.is_success() => Ok(Ok(())),
                Ok(answer) => Err(format!("{answer:?}")),
                Err(error) => Err(format!("{error:#}: {}", process.output())),
            }
        })
        .await?
        .map_err(anyhow::Error::msg)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The host is killed by its `Process`; its Envoy lives in a session of its own.
        if let Ok(pid) = self.envoy_pid() {
            if let Some(pid) = self.process.pid() {
                kill_now(pid);
            }
            kill_now(pid);
        }
    }
}

fn spawn(dir: &Path, admin: u16, arguments: &[String]) -> anyhow::Result<Process> {
    let mut command = Command::new(paths::binary("chiton")?);
    command
        .arg("serve")
        .args(["--admin-address", &format!("127.0.0.1:{admin}")])
        .arg("--manifests")
        .arg(dir.join("manifests"))
        .arg("--data-dir")
        .arg(dir.join("data"))
        .args(arguments);
    if !arguments.iter().any(|argument| argument == "none") {
        command.env("ENVOY", paths::envoy()?);
    }
    Process::start(&mut command, &dir.join("host.log"))
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new~");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path).with_context(|| format!("writing {}", path.display()))
}
