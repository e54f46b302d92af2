//! A host whose Envoys are somebody else's, and refuse what no check of this project does.
//!
//! Their limit for regular expressions is Envoy's own (100 instructions) instead of the one that
//! `chiton bootstrap` sets, so expressions that are fine are refused; and they are started without
//! the extension for clusters whose endpoints are names, so Backends with host names are.

use anyhow::Context as _;
use chiton_tests::command::chiton;
use chiton_tests::manifests::{prefix, route_with, rule, to};
use chiton_tests::process::Process;
use chiton_tests::{Load, World, paths, wait};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// A kind of Envoy.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// With the bootstrap as it is printed: it refuses nothing.
    Plain,
    /// It refuses what the module says.
    Strict,
    /// The same in the state of the world.
    StrictSotw,
}

/// A host, and proxies that it did not start.
pub struct Strict {
    pub world: World,
    proxies: Vec<Process>,
    dir: TempDir,
    xds: String,
}

impl Strict {
    /// A host and a strict Envoy.
    pub async fn start(manifests: &str) -> anyhow::Result<Self> {
        Self::start_with(manifests, &[Kind::Strict]).await
    }

    /// A host and Envoys of one fleet, which share their ports.
    pub async fn start_with(manifests: &str, kinds: &[Kind]) -> anyhow::Result<Self> {
        let [xds] = paths::free_ports()?;
        let xds = format!("127.0.0.1:{xds}");
        let arguments = ["--envoy", "none", "--xds-address", &xds];
        let world = World::start_with(manifests, &arguments).await?;
        let mut strict = Self {
            world,
            proxies: Vec::new(),
            dir: tempfile::tempdir()?,
            xds,
        };
        for kind in kinds {
            strict.add(*kind).await?;
        }
        Ok(strict)
    }

    /// One more Envoy.
    pub async fn add(&mut self, kind: Kind) -> anyhow::Result<()> {
        let id = format!("envoy-{}", self.proxies.len());
        let bootstrap = ["bootstrap", "--xds-address", &self.xds, "--id", &id];
        let bootstrap = chiton(&bootstrap).await?;
        let mut bootstrap: Value = serde_json::from_str(&bootstrap.stdout)?;
        if matches!(kind, Kind::StrictSotw) {
            bootstrap["dynamic_resources"]["ads_config"]["api_type"] = "GRPC".into();
        }
        let mut command = Command::new(paths::envoy()?);
        command.args(["--disable-hot-restart", "--log-level", "warning"]);
        if !matches!(kind, Kind::Plain) {
            let document = bootstrap.as_object_mut().context("a bootstrap")?;
            document
                .remove("layered_runtime")
                .context("limits of regular expressions")?;
            command.args(["--disable-extensions", "envoy.clusters/envoy.cluster.dns"]);
        }
        let file = self.dir.path().join(&id).with_extension("json");
        std::fs::write(&file, bootstrap.to_string())?;
        command.arg("--config-path").arg(&file);
        self.run(&mut command, &id)
    }

    /// A client that takes nothing of a response in which a resource of a type has a text, as
    /// `TYPE:TEXT`.
    pub fn add_refusing(&mut self, refused: &str) -> anyhow::Result<()> {
        let mut command = Command::new(paths::xds_client("rawads")?);
        command.args(["-server", &self.xds, "-refuse", refused]);
        self.run(&mut command, "rawads")
    }

    fn run(&mut self, command: &mut Command, name: &str) -> anyhow::Result<()> {
        let log = self.dir.path().join(name).with_extension("log");
        self.proxies.push(Process::start(command, &log)?);
        Ok(())
    }

    /// Waits until as many proxies as were started are in sync.
    pub async fn connected(&self) -> anyhow::Result<()> {
        wait::until("all proxies are in sync", async || {
            let answer = self.world.host.admin("/api/v1/proxies").await;
            let proxies = answer.map_err(|error| format!("{error:#}"))?.json();
            let all = proxies.as_array().into_iter().flatten();
            let synced = all.filter(|proxy| proxy["synced"] == true).count();
            if synced == self.proxies.len() {
                Ok(())
            } else {
                Err(format!("{proxies:#}"))
            }
        })
        .await
    }

    /// Waits until an object is held, and returns what is said of it.
    pub async fn held(&self, kind: &str, name: &str) -> anyhow::Result<String> {
        let host = &self.world.host;
        wait::until(&format!("{kind} {name} is held"), async || {
            let object = host.object(kind, name).await;
            let object = object.map_err(|error| format!("{error:#}"))?;
            let conditions = object["conditions"].as_array().cloned();
            let mut conditions = conditions.unwrap_or_default().into_iter();
            conditions
                .find(|it| it["type"] == "Programmed" && it["reason"] == "Rejected")
                .and_then(|it| Some(it["message"].as_str()?.to_owned()))
                .ok_or_else(|| format!("{object:#}\n{}", host.output()))
        })
        .await
    }

    /// Ends everything, if all of it is still there.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        for proxy in &mut self.proxies {
            assert_eq!(proxy.ended(), None, "{}", proxy.output());
            proxy.signal(Signal::SIGKILL)?;
            proxy.wait().await?;
        }
        self.world.host.stop().await
    }
}

/// A match of an expression that takes `/<name>` and is fine, and too large for the Envoy here.
pub fn large(name: &str) -> String {
    format!("{{path: {{type: RegularExpression, value: '/{name}[a-z]{{0,60}}'}}}}")
}

/// A route `/<name>` to a backend.
pub fn good(name: &str, backend: &str) -> String {
    on_host(name, &rule(&prefix(&format!("/{name}")), &to(backend)))
}

/// A route that Envoy refuses.
pub fn bad(name: &str) -> String {
    on_host(name, &rule(&large(name), &to("c")))
}

/// A route `/<name>` to a backend, on another Gateway.
pub fn on_gateway(gateway: &str, name: &str, backend: &str) -> String {
    let rules = rule(&prefix(&format!("/{name}")), &to(backend));
    route_with(name, &format!("parentRefs: [{{name: {gateway}}}]"), &rules)
}

/// A route of the one host that all share.
pub fn on_host(name: &str, rules: &str) -> String {
    route_with(name, "parentRefs: [{name: gateway}]", rules)
}

/// A steady load on a path, of which every answer must be a 200.
pub fn load(world: &World, path: &str) -> Load {
    let asked = path.to_owned();
    Load::start_checked(world.port, &world.get(path), 2, 50, move |answer| {
        if answer.status == 200 {
            return Ok(());
        }
        Err(format!("{asked}: {answer:?}"))
    })
}
