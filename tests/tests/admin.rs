//! The admin server and the commands that ask it.

use chiton_tests::command::{Ended, chiton};
use chiton_tests::{Metrics, World, http, paths, quickstart, wait};
use serde_json::Value;

/// Everything of an object that is fine and one that is not.
const MANIFESTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: good}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{group: chiton.dev, kind: Backend, name: a}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bad}
spec:
  parentRefs: [{name: gateway}]
  rules:
    - matches: [{path: {type: PathPrefix, value: /bad}}]
      backendRefs: [{group: chiton.dev, kind: Backend, name: missing}]
---
apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {name: hello}
spec:
  type: hello
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: good}]
  default: {text: world}
";

/// The modules that come with the host.
const BUILT_IN: [&str; 7] = [
    "api",
    "api-key",
    "cors",
    "gateway",
    "headers",
    "rate-limit",
    "route",
];

async fn world() -> anyhow::Result<World> {
    let world = World::start(MANIFESTS).await?;
    world.host.write("module.yaml", &quickstart::hello(1)?)?;
    let ask = world.get("/");
    world
        .host
        .eventually(&ask, |answer| match answer.header("x-hello") {
            "world" => Ok(()),
            other => Err(format!("x-hello is {other:?}")),
        })
        .await?;
    for (kind, name) in [
        ("Gateway", "gateway"),
        ("HTTPRoute", "good"),
        ("Policy", "hello"),
    ] {
        world.host.programmed(kind, name).await?;
    }
    Ok(world)
}

async fn body(world: &World, path: &str, status: u16) -> anyhow::Result<String> {
    let answer = world.host.admin(path).await?;
    assert_eq!(answer.status, status, "{path}: {answer:?}");
    Ok(String::from_utf8(answer.body.to_vec())?)
}

async fn list(world: &World, path: &str) -> anyhow::Result<Vec<Value>> {
    Ok(serde_json::from_str(&body(world, path, 200).await?)?)
}

/// Runs a command against the host of a world.
async fn ask(world: &World, arguments: &[&str]) -> anyhow::Result<Ended> {
    let address = format!("127.0.0.1:{}", world.host.admin_port());
    chiton(&[arguments, &["--admin-address", &address]].concat()).await
}

#[tokio::test]
async fn the_admin_server_says_how_the_host_is() -> anyhow::Result<()> {
    let world = world().await?;
    assert_eq!(body(&world, "/healthz", 200).await?, "ok\n");
    assert_eq!(body(&world, "/readyz", 200).await?, "ok\n");
    let verbose = body(&world, "/readyz?verbose", 200).await?;
    assert!(verbose.contains("[+] first epoch"), "{verbose}");
    body(&world, "/nowhere", 404).await?;

    let objects = list(&world, "/api/v1/objects").await?;
    let find = |kind: &str, name: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind && object["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let good = find("HTTPRoute", "good");
    assert_eq!(good["group"], "gateway.networking.k8s.io", "{good:#}");
    assert_eq!(good["namespace"], "default");
    assert_eq!(good["origin"], "test.yaml:2");
    assert_eq!(good["module"], "route");
    assert_eq!(find("Policy", "hello")["module"], "hello");
    assert_eq!(find("Gateway", "gateway")["attachedRoutes"]["http"], 2);
    let bad = find("HTTPRoute", "bad");
    let unresolved = bad["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| {
            condition["type"] == "ResolvedRefs" && condition["reason"] == "BackendNotFound"
        })
    });
    assert!(unresolved, "{bad:#}");

    let modules = list(&world, "/api/v1/modules").await?;
    for name in BUILT_IN.into_iter().chain(["hello"]) {
        let module = modules.iter().find(|module| module["name"] == name);
        let Some(module) = module else {
            anyhow::bail!("no {name} in {modules:#?}");
        };
        assert_eq!(module["state"], "live", "{module:#}");
        assert_eq!(
            module["digest"].as_str().map(str::len),
            Some(64),
            "{module:#}"
        );
        assert_eq!(module["failures"], 0, "{module:#}");
        let source = if name == "hello" {
            "ConfigMap default/hello-module"
        } else {
            "built-in"
        };
        assert_eq!(module["source"], source);
    }

    let proxies = list(&world, "/api/v1/proxies").await?;
    let [proxy] = proxies.as_slice() else {
        anyhow::bail!("{proxies:#?}");
    };
    assert_eq!(proxy["group"], "default", "{proxy:#}");
    assert_eq!(proxy["address"], "unix");
    assert_eq!(proxy["synced"], true);
    assert_eq!(proxy["nacks"], serde_json::json!([]));
    for kind in ["Listener", "RouteConfiguration", "VirtualHost", "Cluster"] {
        let count = &proxy["types"][kind];
        assert!(count["sent"].as_u64() > Some(0), "{kind}: {proxy:#}");
        assert_eq!(count["acked"], count["sent"], "{kind}: {proxy:#}");
    }
    assert!(list(&world, "/api/v1/problems").await?.is_empty());
    world.host.stop().await
}

#[tokio::test]
async fn metrics_count_what_happens() -> anyhow::Result<()> {
    let world = world().await?;
    let metrics = Metrics::of(&world.host).await?;
    let text = metrics.text();
    let count = |name: &str, labels: &[(&str, &str)]| metrics.count(name, labels);
    assert_eq!(
        count(
            "chiton_reconciles_total",
            &[("module", "hello"), ("outcome", "done")]
        ),
        1,
        "{text}"
    );
    assert!(
        count("chiton_reconciles_total", &[("module", "route")]) >= 2,
        "{text}"
    );
    let route = [("module", "route")];
    assert!(
        count("chiton_reconcile_seconds_count", &route) >= 2,
        "{text}"
    );
    assert!(
        metrics.has("chiton_reconcile_seconds_sum", &route),
        "{text}"
    );
    assert!(count("chiton_epochs_total", &[]) >= 2, "{text}");
    for (kind, number) in [
        ("HTTPRoute.gateway.networking.k8s.io", 2),
        ("Gateway.gateway.networking.k8s.io", 1),
        ("Backend.chiton.dev", 3),
        ("ConfigMap", 1),
        ("Secret", 0),
    ] {
        assert_eq!(
            count("chiton_store_objects", &[("kind", kind)]),
            number,
            "{kind}: {text}"
        );
    }
    for kind in ["Listener", "RouteConfiguration", "VirtualHost", "Cluster"] {
        let labels = [("type", kind)];
        assert!(
            count("chiton_xds_resources_sent_total", &labels) >= 1,
            "{kind}: {text}"
        );
        assert!(
            metrics.has("chiton_xds_nacks_total", &labels),
            "{kind}: {text}"
        );
    }
    assert_eq!(count("chiton_xds_nacks_total", &[]), 0, "{text}");
    assert_eq!(count("chiton_xds_streams", &[]), 1, "{text}");
    let hello = [("module", "hello"), ("version", "1.0.0"), ("state", "live")];
    assert_eq!(count("chiton_module_info", &hello), 1, "{text}");
    assert_eq!(count("chiton_module_info", &[]), 8, "{text}");
    // What only grows is a counter to those who ask for its rate.
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        let mut words = line.split(' ').skip(2);
        let (name, kind) = (words.next().unwrap_or_default(), words.next());
        if name.ends_with("_total") {
            assert_eq!(kind, Some("counter"), "{line}");
        }
    }

    // What goes is counted down.
    world.replace(MANIFESTS.split("---").next().unwrap_or_default())?;
    world.host.remove("module.yaml")?;
    wait::until("the numbers are smaller", async || {
        let metrics = Metrics::of(&world.host)
            .await
            .map_err(|error| format!("{error:#}"))?;
        let kind = |kind| metrics.count("chiton_store_objects", &[("kind", kind)]);
        let live = metrics.count(
            "chiton_module_info",
            &[("module", "hello"), ("state", "live")],
        );
        if (
            kind("HTTPRoute.gateway.networking.k8s.io"),
            kind("ConfigMap"),
            live,
        ) == (1, 0, 0)
        {
            Ok(())
        } else {
            Err(metrics.text().to_owned())
        }
    })
    .await?;
    world.host.stop().await
}

#[tokio::test]
async fn status_and_modules_are_tables_for_people_and_json_for_programs() -> anyhow::Result<()> {
    let world = world().await?;
    let status = ask(&world, &["status"]).await?;
    assert_eq!(status.code, Some(0), "{status:?}");
    let line = |text: &str, words: &[&str]| {
        text.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    for words in [
        &["KIND", "NAME", "CONDITIONS"][..],
        &[
            "HTTPRoute",
            "default/good",
            "Accepted",
            "Programmed",
            "ResolvedRefs",
        ],
        &["HTTPRoute", "default/bad", "1 problem"],
        &["ResolvedRefs=False", "BackendNotFound", "missing"],
        &["Gateway", "default/gateway", "Programmed"],
    ] {
        assert!(line(&status.stdout, words), "{words:?}: {}", status.stdout);
    }
    let json = ask(&world, &["status", "-o", "json"]).await?;
    let objects: Vec<Value> = serde_json::from_str(&json.stdout)?;
    assert!(
        objects.iter().any(|object| object["name"] == "bad"),
        "{objects:#?}"
    );

    let modules = ask(&world, &["modules"]).await?;
    assert_eq!(modules.code, Some(0), "{modules:?}");
    let header = &[
        "MODULE",
        "VERSION",
        "DIGEST",
        "STATE",
        "RECONCILES",
        "FAILURES",
    ][..];
    for words in [
        header,
        &["hello", "1.0.0", "live", "ConfigMap default/hello-module"],
        &["route", "live", "built-in"],
    ] {
        assert!(
            line(&modules.stdout, words),
            "{words:?}: {}",
            modules.stdout
        );
    }
    let json = ask(&world, &["modules", "-o", "json"]).await?;
    let modules: Vec<Value> = serde_json::from_str(&json.stdout)?;
    assert_eq!(modules.len(), BUILT_IN.len() + 1, "{modules:#?}");
    world.host.stop().await
}

#[tokio::test]
async fn commands_without_a_host_say_so() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let address = format!("127.0.0.1:{port}");
    for command in ["status", "modules"] {
        let ended = chiton(&[command, "--admin-address", &address]).await?;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stdout, "");
        assert!(
            ended
                .stderr
                .contains(&format!("no host answers at {address}")),
            "{}",
            ended.stderr
        );
    }
    let wrong = chiton(&["status", "--no-such-flag"]).await?;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let wrong = chiton(&["serve", "--manifests", "/nowhere"]).await?;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(
        wrong.stderr.contains("/nowhere is not a folder"),
        "{}",
        wrong.stderr
    );
    let wrong = chiton(&["bootstrap", "--xds-address", "nothing"]).await?;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("HOST:PORT"), "{}", wrong.stderr);
    Ok(())
}

#[tokio::test]
async fn the_admin_port_must_be_free() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let [manifests, data] =
        [dir.path(), &dir.path().join("data")].map(|path| path.to_string_lossy().into_owned());
    let ended = chiton(&[
        "serve",
        "--manifests",
        &manifests,
        "--data-dir",
        &data,
        "--admin-address",
        &address,
    ])
    .await?;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains(&address) && ended.stderr.contains("--admin-address"),
        "{}",
        ended.stderr
    );
    Ok(())
}

#[tokio::test]
async fn a_configuration_file_says_which_reconcilers_are_active() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("chiton.yaml");
    std::fs::write(&file, "reconcilers: {enabled: [gateway, route, headers]}\n")?;
    let config = file.to_string_lossy().into_owned();
    let cors = "---
apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {name: cors}
spec:
  type: cors
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: good}]
  default: {allowOrigins: ['https://app.example']}
";
    let world = World::start_with(&(MANIFESTS.to_owned() + cors), &["--config", &config]).await?;
    world.served_by("/", "a").await?;
    let said = world
        .host
        .condition("Policy", "cors", "Accepted", "False")
        .await?;
    assert!(said.starts_with("ModuleNotFound: "), "{said}");
    let modules = list(&world, "/api/v1/modules").await?;
    let names: Vec<&str> = modules
        .iter()
        .filter_map(|module| module["name"].as_str())
        .collect();
    assert_eq!(names, ["gateway", "headers", "route"]);
    world.host.stop().await
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_with_its_place() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("chiton.yaml");
    let manifests = dir.path().to_string_lossy().into_owned();
    let config = file.to_string_lossy().into_owned();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    for (text, expected) in [
        ("manifest: x\n", "manifest"),
        ("envoy: sometimes\n", "sometimes"),
        ("reconcilers: {enabled: [gateway, nonesuch]}\n", "nonesuch"),
        ("reconcilers: {enable: [gateway]}\n", "enable"),
    ] {
        std::fs::write(&file, text)?;
        let ended = chiton(&[
            "serve",
            "--config",
            &config,
            "--manifests",
            &manifests,
            "--data-dir",
            &data,
            "--admin-address",
            "127.0.0.1:0",
            "--envoy",
            "none",
            "--xds-address",
            "127.0.0.1:0",
        ])
        .await?;
        assert_eq!(ended.code, Some(1), "{text}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{text}: {}", ended.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn a_host_that_is_not_ready_says_what_it_waits_for() -> anyhow::Result<()> {
    // An Envoy that answers nothing keeps the host from its first epoch.
    let dir = tempfile::tempdir()?;
    let envoy = dir.path().join("envoy");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo version: none\nkill -STOP $$\n";
    std::fs::write(&envoy, script)?;
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&envoy, executable)?;
    let [port] = paths::free_ports()?;
    let address = format!("127.0.0.1:{port}");
    let mut command = tokio::process::Command::new(paths::binary("chiton")?);
    command
        .arg("serve")
        .arg("--manifests")
        .arg(dir.path())
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .args(["--admin-address", &address])
        .env("ENVOY", &envoy);
    let mut host =
        chiton_tests::process::Process::start(&mut command, &dir.path().join("host.log"))?;
    let answer = wait::until("the host answers", async || {
        http::get(port, "/readyz?verbose")
            .send()
            .await
            .map_err(|error| format!("{error:#}: {}", host.output()))
    })
    .await?;
    assert_eq!(answer.status, 503);
    assert!(
        String::from_utf8_lossy(&answer.body).contains("[-] first epoch"),
        "{answer:?}"
    );
    assert_eq!(http::get(port, "/healthz").send().await?.status, 200);

    // Told to stop, it does not wait until Envoy's time is over.
    host.signal(nix::sys::signal::Signal::SIGTERM)?;
    let status = host.wait().await?;
    assert!(status.success(), "{status}: {}", host.output());
    assert!(!dir.path().join("data/envoy-process.json").exists());
    Ok(())
}
