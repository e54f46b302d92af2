//! `make run`: the quickstart in the foreground, until Ctrl-C.

use anyhow::Context as _;
use chiton_tests::quickstart::{self, Ports};
use chiton_tests::{Backend, paths};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The port that the example's text names; another one is taken if it is not free.
const PREFERRED_PORT: u16 = 8080;
/// The admin port that `chiton status` asks by default; another one is taken if it is not free.
const PREFERRED_ADMIN: u16 = 19000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let work = tempfile::Builder::new()
        .prefix("chiton-quickstart-")
        .tempdir()?;
    let manifests = work.path().join("manifests");
    std::fs::create_dir(&manifests)?;
    let backend = Backend::start(work.path(), &["orders", "orders-sandbox"]).await?;
    let ports = Ports {
        gateway: free_or(PREFERRED_PORT)?,
        orders: backend.port("orders")?,
        sandbox: backend.port("orders-sandbox")?,
    };
    let admin = free_or(PREFERRED_ADMIN)?;
    for (name, text) in quickstart::files(ports)? {
        std::fs::write(manifests.join(name), text)?;
    }
    std::fs::write(work.path().join("hello-v2.yaml"), quickstart::hello(2)?)?;

    let mut host = Command::new(paths::binary("chiton")?)
        .arg("serve")
        .args(["--bind-address", "127.0.0.1"])
        .args(["--admin-address", &format!("127.0.0.1:{admin}")])
        .arg("--manifests")
        .arg(&manifests)
        .arg("--data-dir")
        .arg(work.path().join("data"))
        .env("ENVOY", paths::envoy()?)
        .spawn()
        .context("cannot start chiton")?;
    print!("{}", welcome(work.path(), ports.gateway, admin)?);
    let status = until_stopped(&mut host).await?;
    println!("stopped");
    Ok(if status {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits for the host's end; passes on a signal that only this process got.
async fn until_stopped(host: &mut Child) -> anyhow::Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            status = host.wait() => return Ok(status?.success()),
            // Ctrl-C in a terminal goes to the host too; a second signal does it no harm.
            _ = interrupt.recv() => stop(host)?,
            _ = terminate.recv() => stop(host)?,
        }
    }
}

fn stop(host: &Child) -> anyhow::Result<()> {
    if let Some(pid) = host.id() {
        kill(Pid::from_raw(pid.try_into()?), Signal::SIGTERM)?;
    }
    Ok(())
}

fn free_or(port: u16) -> anyhow::Result<u16> {
    if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
        return Ok(port);
    }
    let [port] = paths::free_ports()?;
    Ok(port)
}

fn welcome(work: &Path, port: u16, admin: u16) -> anyhow::Result<String> {
    let chiton = paths::binary("chiton")?;
    let (chiton, work) = (chiton.display(), work.display());
    let ask = if admin == PREFERRED_ADMIN {
        String::new()
    } else {
        format!(" --admin-address 127.0.0.1:{admin}")
    };
    Ok(format!(
        "
Chiton serves examples/quickstart from {work}/manifests; edit the files there and see. Try:

  curl -i http://127.0.0.1:{port}/hello                                   # a route; x-hello comes from a module
  curl -i http://127.0.0.1:{port}/orders/v1/42                            # an API: production
  curl -i -H 'x-environment: sandbox' http://127.0.0.1:{port}/orders/42   # ... and its sandbox
  {chiton} status{ask}
  {chiton} modules{ask}

Hot-swap the policy `hello` to another version, then ask /hello again:

  cp {work}/hello-v2.yaml {work}/manifests/hello-module.yaml

Ctrl-C stops everything.

"
    ))
}
