//! `make demo`: the whole story by itself, under a steady load.
//!
//! Each step is checked by real requests. The exit code is 0 if every step did what it should and no
//! request of the load failed.

use anyhow::{Context as _, ensure};
use chiton_tests::http::{self, Answer};
use chiton_tests::load::Load;
use chiton_tests::quickstart::{self, Ports};
use chiton_tests::{Backend, Host, module, paths, wait};
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
    let [port] = paths::free_ports()?;
    let ports = Ports {
        gateway: port,
        orders: backend.port("orders")?,
        sandbox: backend.port("orders-sandbox")?,
    };
    let files = quickstart::files(ports)?;
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();

    let host = Host::start(&files).await?;
    let hello = http::get(port, "/hello");
    step("serve: /hello answers, with the module's header", async {
        host.eventually(&hello, |answer| expect_hello(answer, "world"))
            .await
    })
    .await?;
    step(
        "serve: the API sends production and sandbox to different backends",
        async {
            let orders = http::get(port, "/orders/v1/42");
            host.eventually(&orders, |answer| is("backend", &answer.backend(), "orders"))
                .await?;
            let sandbox = http::get(port, "/orders/42").header("x-environment", "sandbox");
            host.eventually(&sandbox, |answer| {
                is("backend", &answer.backend(), "orders-sandbox")
            })
            .await
        },
    )
    .await?;

    println!(
        "      load: {} requests a second on /hello",
        WORKERS * PER_SECOND
    );
    let load = Load::start(port, &hello, WORKERS, PER_SECOND);

    step("add a route: /added answers", async {
        host.write("added.yaml", &added_route())?;
        host.eventually(&http::get(port, "/added"), |answer| {
            is("status", answer.status.as_str(), "200")
        })
        .await
    })
    .await?;
    step(
        "change a policy: x-served-by changes on the whole Gateway",
        async {
            let policies = files
                .iter()
                .find(|(name, _)| *name == "policies.yaml")
                .context("no policies.yaml")?
                .1;
            host.write(
                "policies.yaml",
                &policies.replace("value: chiton", "value: changed"),
            )?;
            host.eventually(&hello, |answer| {
                is("x-served-by", answer.header("x-served-by"), "changed")
            })
            .await
        },
    )
    .await?;
    step("swap the module: version 2 answers in another way", async {
        host.write("hello-module.yaml", &quickstart::hello(2)?)?;
        host.eventually(&hello, |answer| expect_hello(answer, "world (version 2.0.0)"))
            .await
    })
    .await?;
    step(
        "offer a broken module: it is refused, version 2 stays",
        async {
            let component = std::fs::read(paths::guest("hello")?)?;
            let broken = module::config_map("hello", "3.0.0", &component[..component.len() / 2])?;
            host.write("hello-module.yaml", &broken)?;
            let reason = wait::until("the module is refused", async || {
                let modules = host
                    .admin("/api/v1/modules")
                    .await
                    .map_err(|error| error.to_string())?
                    .json();
                let empty = Vec::new();
                let refused = modules
                    .as_array()
                    .unwrap_or(&empty)
                    .iter()
                    .find(|module| module["name"] == "hello" && module["state"] == "refused");
                refused
                    .and_then(|module| module["reason"].as_str())
                    .map(str::to_owned)
                    .ok_or(format!("{modules:#}"))
            })
            .await?;
            println!("      refused: {reason}");
            host.eventually(&hello, |answer| expect_hello(answer, "world (version 2.0.0)"))
                .await
        },
    )
    .await?;
    step("remove the route: /added is 404", async {
        host.remove("added.yaml")?;
        host.eventually(&http::get(port, "/added"), |answer| {
            is("status", answer.status.as_str(), "404")
        })
        .await
    })
    .await?;

    let report = load.stop().await;
    println!(
        "      load: {} requests sent, {} failed",
        report.sent, report.failed
    );
    step("stop: host and Envoy are gone", async { host.stop().await }).await?;
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

async fn step<T>(what: &str, doing: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let start = Instant::now();
    let value = doing.await.with_context(|| what.to_owned())?;
    println!("[ok]  {what} ({} ms)", start.elapsed().as_millis());
    Ok(value)
}

fn expect_hello(answer: &Answer, value: &str) -> Result<(), String> {
    is("x-hello", answer.header("x-hello"), value)
}

fn is(what: &str, value: &str, expected: &str) -> Result<(), String> {
    if value == expected {
        Ok(())
    } else {
        Err(format!("{what} is {value:?}, not {expected:?}"))
    }
}

fn added_route() -> String {
    "apiVersion: gateway.networking.k8s.io/v1
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
"
    .to_owned()
}
