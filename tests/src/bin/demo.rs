//! `make demo`: the whole story by itself, under a steady load.
//!
//! Each step is checked by real requests. The exit code is 0 if every step did what it should and no
//! request of the load failed.

use anyhow::{Context as _, ensure};
use chiton_tests::http::{self, Ask};
use chiton_tests::load::Load;
use chiton_tests::quickstart::{self, Ports};
use chiton_tests::{Backend, Host, module, paths, wait};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Instant;

/// Connections of the load, and requests a second on each.
const WORKERS: u32 = 4;
const PER_SECOND: u32 = 75;

#[tokio::main]
async fn main() -> ExitCode {
    match story().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn story() -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    let backend = Backend::start(work.path(), &["orders", "orders-sandbox"]).await?;
    let story = Story::begin(&backend).await?;
    step(
        "serve: /hello answers, with the module's header",
        story.serve_hello(),
    )
    .await?;
    step(
        "serve: production and sandbox of the API are different backends",
        story.serve_api(),
    )
    .await?;

    println!(
        "      load: {} requests a second on /hello",
        WORKERS * PER_SECOND
    );
    let load = Load::start(story.port, &story.hello(), WORKERS, PER_SECOND);
    step("add a route: /added answers", story.add_route()).await?;
    step(
        "change a policy: x-served-by changes",
        story.change_policy(),
    )
    .await?;
    step(
        "swap the module: version 2 answers in another way",
        story.swap(),
    )
    .await?;
    step(
        "offer a broken module: it is refused, version 2 stays",
        story.offer_broken(),
    )
    .await?;
    step("remove the route: /added is 404", story.remove_route()).await?;

    let report = load.stop().await;
    println!(
        "      load: {} requests sent, {} failed",
        report.sent, report.failed
    );
    step("stop: host and Envoy are gone", story.host.stop()).await?;
    ensure!(report.sent > 0, "the load sent nothing");
    ensure!(
        report.failed == 0,
        "{} requests failed; the first: {:?}",
        report.failed,
        report.first_failure
    );
    println!("demo: every step did what it should, 0 requests failed");
    Ok(())
}

/// The quickstart, running.
struct Story {
    host: Host,
    port: u16,
    files: Vec<(String, String)>,
}

impl Story {
    async fn begin(backend: &Backend) -> anyhow::Result<Self> {
        let [port] = paths::free_ports()?;
        let ports = Ports {
            gateway: port,
            orders: backend.port("orders")?,
            sandbox: backend.port("orders-sandbox")?,
        };
        let files = quickstart::files(ports)?;
        let named: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let host = Host::start(&named).await?;
        Ok(Self { host, port, files })
    }

    fn hello(&self) -> Ask {
        http::get(self.port, "/hello")
    }

    async fn says(&self, ask: &Ask, header: &str, value: &str) -> anyhow::Result<()> {
        self.host
            .eventually(ask, |answer| is(header, answer.header(header), value))
            .await
            .map(drop)
    }

    async fn status(&self, path: &str, status: &str) -> anyhow::Result<()> {
        let ask = http::get(self.port, path);
        self.host
            .eventually(&ask, |answer| is("status", answer.status.as_str(), status))
            .await
            .map(drop)
    }

    async fn serve_hello(&self) -> anyhow::Result<()> {
        self.says(&self.hello(), "x-hello", "world").await
    }

    async fn serve_api(&self) -> anyhow::Result<()> {
        let orders = http::get(self.port, "/orders/v1/42");
        self.host
            .eventually(&orders, |answer| is("backend", &answer.backend(), "orders"))
            .await?;
        let sandbox = http::get(self.port, "/orders/42").header("x-environment", "sandbox");
        self.host
            .eventually(&sandbox, |answer| {
                is("backend", &answer.backend(), "orders-sandbox")
            })
            .await
            .map(drop)
    }

    async fn add_route(&self) -> anyhow::Result<()> {
        self.host.write("added.yaml", ADDED_ROUTE)?;
        self.status("/added", "200").await
    }

    async fn change_policy(&self) -> anyhow::Result<()> {
        let policies = self.files.iter().find(|(name, _)| name == "policies.yaml");
        let policies = &policies.context("the quickstart has no policies.yaml")?.1;
        self.host.write(
            "policies.yaml",
            &policies.replace("value: chiton", "value: changed"),
        )?;
        self.says(
            &http::get(self.port, "/orders/v1/42"),
            "x-served-by",
            "changed",
        )
        .await
    }

    async fn swap(&self) -> anyhow::Result<()> {
        self.host.write(MODULE, &quickstart::hello(2)?)?;
        self.says(&self.hello(), "x-hello", "Hello, world!").await
    }

    async fn offer_broken(&self) -> anyhow::Result<()> {
        let component = std::fs::read(paths::guest("hello")?)?;
        let half = component.get(..component.len() / 2).unwrap_or_default();
        self.host
            .write(MODULE, &module::config_map("hello", "3.0.0", half)?)?;
        let reason = wait::until("the module is refused", async || {
            let modules = self
                .host
                .admin("/api/v1/modules")
                .await
                .map_err(|error| error.to_string())?;
            refusal(&modules.json()).ok_or_else(|| format!("{modules:?}"))
        })
        .await?;
        println!("      refused: {reason}");
        self.says(&self.hello(), "x-hello", "Hello, world!").await
    }

    async fn remove_route(&self) -> anyhow::Result<()> {
        self.host.remove("added.yaml")?;
        self.status("/added", "404").await
    }
}

/// Why the module `hello` was refused, if it was.
fn refusal(modules: &Value) -> Option<String> {
    let refused = modules
        .as_array()?
        .iter()
        .find(|module| module["name"] == "hello" && module["state"] == "refused")?;
    Some(refused["reason"].as_str()?.to_owned())
}

async fn step<T>(what: &str, doing: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let start = Instant::now();
    let value = doing.await.with_context(|| what.to_owned())?;
    println!("[ok]  {what} ({} ms)", start.elapsed().as_millis());
    Ok(value)
}

fn is(what: &str, value: &str, expected: &str) -> Result<(), String> {
    if value == expected {
        Ok(())
    } else {
        Err(format!("{what} is {value:?}, not {expected:?}"))
    }
}

/// The file of the module `hello`.
const MODULE: &str = "hello-module.yaml";

const ADDED_ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: added
spec:
  parentRefs:
    - name: quickstart
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: /added
      backendRefs:
        - group: chiton.dev
          kind: Backend
          name: orders
";
