//! What proxies get from a host that has started and does not know yet what there is: what the last one
//! served, and nothing less.

#[allow(dead_code)] // A part of it.
mod guest;

use chiton_tests::manifests::path_route_at;
use chiton_tests::process::{is_running, kill_now};
use chiton_tests::{Host, Load, Metrics, World, module, wait};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Types of what goes with a route of a hostname and a backend of its own.
const OF_A_ROUTE: [&str; 2] = ["VirtualHost", "Cluster"];

/// Waits until `/<name>` at a hostname is answered by a backend.
async fn served(world: &World, name: &str, hostname: &str, backend: &str) -> anyhow::Result<()> {
    let ask = world.get(&format!("/{name}")).host(hostname);
    let check = |answer: &chiton_tests::http::Answer| match answer.backend() {
        found if found == backend => Ok(()),
        found => Err(format!("answered by {found:?}")),
    };
    world.host.eventually(&ask, check).await.map(drop)
}

/// Takes the manifests away, all of them at once when they come back.
struct Away {
    away: PathBuf,
    back: PathBuf,
}

impl Away {
    fn take(host: &Host) -> anyhow::Result<Self> {
        let away = host.dir().join("away");
        std::fs::rename(host.manifests(), &away)?;
        std::fs::create_dir(host.manifests())?;
        let back = host.manifests().join("all");
        Ok(Self { away, back })
    }

    fn bring_back(&self) -> anyhow::Result<()> {
        Ok(std::fs::rename(&self.away, &self.back)?)
    }
}

/// The host and its Envoy die.
async fn kill_both(world: &mut World) -> anyhow::Result<()> {
    let envoy = world.host.envoy_pid()?;
    world.host.kill().await?;
    kill_now(envoy);
    wait::until("Envoy is gone", async || {
        if is_running(envoy) {
            Err("it runs")
        } else {
            Ok(())
        }
    })
    .await
}

/// What `/readyz?verbose` says of a host that is not ready.
async fn not_ready(host: &Host) -> anyhow::Result<String> {
    let answer = host.admin("/readyz?verbose").await?;
    assert_eq!(answer.status, 503, "{answer:?}");
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

fn removals(metrics: &Metrics, kind: &str) -> u64 {
    metrics.count("chiton_xds_removals_sent_total", &[("type", kind)])
}

#[tokio::test]
async fn a_fresh_envoy_is_served_what_was_served_before_until_the_host_is_ready()
-> anyhow::Result<()> {
    let mut world = World::start(&path_route_at("a.example", "a", "a")).await?;
    world.write("gone.yaml", &path_route_at("gone.example", "gone", "c"))?;
    served(&world, "a", "a.example", "a").await?;
    served(&world, "gone", "gone.example", "c").await?;
    world.host.saved().await?;

    kill_both(&mut world).await?;
    let away = Away::take(&world.host)?;
    world.host.launch_again()?;
    served(&world, "a", "a.example", "a").await?;
    served(&world, "gone", "gone.example", "c").await?;
    let why = not_ready(&world.host).await?;
    assert!(
        why.contains("[+] kinds listed")
            && why.contains("[-] manifests: the folder holds no objects")
            && why.contains("[-] first epoch"),
        "{why}"
    );
    assert_eq!(world.host.admin("/healthz").await?.status, 200);
    let before = Metrics::of(&world.host).await?;

    // What went meanwhile goes, and nothing else.
    let load = Load::start(world.port, &world.get("/a").host("a.example"), 2, 50);
    load.send_more(10).await?;
    std::fs::remove_file(away.away.join("gone.yaml"))?;
    away.bring_back()?;
    world.host.ready().await?;
    let gone = world.get("/gone").host("gone.example");
    world.status(&gone, 404).await?;
    world.host.programmed("HTTPRoute", "a").await?;
    world.host.acked().await?;
    let after = wait::until("all of it is gone", async || {
        let metrics = Metrics::of(&world.host).await;
        let metrics = metrics.map_err(|error| format!("{error:#}"))?;
        if OF_A_ROUTE.iter().all(|kind| removals(&metrics, kind) > 0) {
            Ok(metrics)
        } else {
            Err(metrics.text().to_owned())
        }
    })
    .await?;
    for kind in OF_A_ROUTE {
        assert_eq!(removals(&after, kind), 1, "{kind}");
    }
    assert_eq!(after.count("chiton_xds_removals_sent_total", &[]), 2);
    assert_eq!(
        after.count("chiton_xds_resources_sent_total", &[]),
        before.count("chiton_xds_resources_sent_total", &[]),
        "{}",
        after.text()
    );
    load.flawless(20).await?;
    world.host.stop().await
}

#[tokio::test]
async fn an_envoy_that_stayed_is_left_alone_even_if_it_knows_more_than_the_checkpoint()
-> anyhow::Result<()> {
    let mut world = World::start(&path_route_at("a.example", "a", "a")).await?;
    served(&world, "a", "a.example", "a").await?;
    world.host.saved().await?;
    let older = std::fs::read(world.host.checkpoint())?;
    world.write("later.yaml", &path_route_at("later.example", "later", "b"))?;
    served(&world, "later", "later.example", "b").await?;
    let envoy = world.host.envoy_pid()?;

    let later = world.get("/later").host("later.example");
    let load = Load::start(world.port, &later, 2, 50);
    load.send_more(10).await?;
    world.host.kill().await?;
    // As if the host had died before it could save the last change.
    std::fs::write(world.host.checkpoint(), older)?;
    let away = Away::take(&world.host)?;
    world.host.launch_again()?;
    wait::until("Envoy is connected", async || {
        let proxies = world.host.admin("/api/v1/proxies").await;
        let proxies = proxies.map_err(|error| format!("{error:#}"))?.json();
        match proxies[0]["types"].get("VirtualHost") {
            Some(_) => Ok(()),
            None => Err(format!("{proxies:#}")),
        }
    })
    .await?;
    load.send_more(50).await?;
    not_ready(&world.host).await?;
    away.bring_back()?;
    world.host.ready().await?;
    world.host.programmed("HTTPRoute", "later").await?;
    load.flawless(50).await?;
    assert_eq!(world.host.envoy_pid()?, envoy);
    let metrics = Metrics::of(&world.host).await?;
    for name in [
        "chiton_xds_resources_sent_total",
        "chiton_xds_removals_sent_total",
    ] {
        assert_eq!(
            metrics.count(name, &[]),
            0,
            "{}\n{}",
            metrics.text(),
            world.host.output()
        );
    }
    world.host.stop().await
}

#[tokio::test]
async fn a_module_that_does_not_load_keeps_nobody_from_what_was_served() -> anyhow::Result<()> {
    let mut world = World::start(&path_route_at("a.example", "a", "a")).await?;
    served(&world, "a", "a.example", "a").await?;
    world.host.saved().await?;
    kill_both(&mut world).await?;

    // Reading it waits until somebody writes.
    let fifo = world.host.dir().join("stuck.wasm");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    let stuck = format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: stuck, labels: {{chiton.dev/module: stuck}}}}
data:
  module.yaml: |
    name: stuck
    version: 1.0.0
    sha256: '{:064}'
    source: file://{}
",
        0,
        fifo.display()
    );
    world.write("stuck.yaml", &stuck)?;
    world.host.launch_again()?;
    served(&world, "a", "a.example", "a").await?;
    let why = wait::until("the module is waited for", async || {
        let why = not_ready(&world.host).await;
        let why = why.map_err(|error| format!("{error:#}"))?;
        if why.contains("[-] modules live or refused: stuck") {
            Ok(why)
        } else {
            Err(why)
        }
    })
    .await?;
    assert!(why.contains("[-] first epoch"), "{why}");
    std::fs::write(&fifo, "")?;
    world.host.ready().await?;
    world.host.module("stuck", "1.0.0", "refused").await?;
    served(&world, "a", "a.example", "a").await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_file_that_broke_while_nobody_watched_is_what_it_was() -> anyhow::Result<()> {
    let mut world = World::start(&path_route_at("a.example", "a", "a")).await?;
    let good = path_route_at("b.example", "b", "b");
    world.write("b.yaml", &good)?;
    served(&world, "b", "b.example", "b").await?;
    world.host.saved().await?;

    // Another restart has nothing but what the first one kept.
    for _ in 0..2 {
        kill_both(&mut world).await?;
        world.write("b.yaml", &format!("{good}a: [1\n"))?;
        world.host.start_again().await?;
        served(&world, "b", "b.example", "b").await?;
        world.host.programmed("HTTPRoute", "b").await?;
        let output = world.host.output();
        let said = output
            .lines()
            .find(|line| line.contains("b.yaml:10: does not parse"));
        assert!(
            said.is_some_and(|it| it.contains("ERROR") && it.contains("last good objects are kept")),
            "{output}"
        );
        world.host.saved().await?;
    }
    world.host.remove("b.yaml")?;
    world
        .status(&world.get("/b").host("b.example"), 404)
        .await?;
    served(&world, "a", "a.example", "a").await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_damaged_checkpoint_is_ignored_and_replaced() -> anyhow::Result<()> {
    const RESTORED: &str = "serving what was served before";
    let mut world = World::start(&path_route_at("a.example", "a", "a")).await?;
    served(&world, "a", "a.example", "a").await?;
    world.host.saved().await?;
    assert!(!world.host.output().contains(RESTORED));
    kill_both(&mut world).await?;
    let file = world.host.checkpoint();
    let good = std::fs::read(&file)?;
    let half = good.get(..good.len() / 2).unwrap_or_default();
    let mut newer = good.clone();
    newer[18] += 1;
    for (bytes, expected) in [
        (half, "damaged or incomplete"),
        (&newer, "it has format 3"),
        (b"", "not a checkpoint"),
    ] {
        std::fs::write(&file, bytes)?;
        world.host.start_again().await?;
        let output = world.host.output();
        assert!(
            output.contains("the checkpoint is ignored") && output.contains(expected),
            "{output}"
        );
        assert!(!output.contains(RESTORED), "{output}");
        served(&world, "a", "a.example", "a").await?;
        world.host.saved().await?;
        assert_eq!(
            std::fs::read(&file)?,
            good,
            "the same state, the same bytes"
        );
        kill_both(&mut world).await?;
    }
    world.host.start_again().await?;
    assert!(world.host.output().contains(RESTORED));
    world.host.stop().await
}

#[tokio::test]
async fn no_secret_is_in_the_checkpoint_and_what_needs_one_stays_closed() -> anyhow::Result<()> {
    let made = rcgen::generate_simple_self_signed(["tls.example".to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let block = |text: &str| text.trim_end().replace('\n', "\n    ");
    let [tls] = chiton_tests::paths::free_ports()?;
    let manifests = format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: tls}}
type: kubernetes.io/tls
stringData:
  tls.crt: |
    {}
  tls.key: |
    {}
---
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData: {{alice: correct-horse-battery}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: secure}}
spec:
  gatewayClassName: chiton
  listeners:
    - {{name: https, protocol: HTTPS, port: {tls}, tls: {{certificateRefs: [{{name: tls}}]}}}}
---
apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {{name: keys}}
spec:
  type: api-key
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: closed}}]
  default: {{secretRefs: [{{name: keys}}], in: header, name: x-api-key}}
---
",
        block(&certificate),
        block(&key)
    ) + &path_route_at("open.example", "open", "a")
        + &path_route_at("closed.example", "closed", "b");
    let mut world = World::start(&manifests).await?;
    let with_key = world
        .get("/closed")
        .host("closed.example")
        .header("x-api-key", "correct-horse-battery");
    world.status(&with_key, 200).await?;
    world.host.programmed("Gateway", "secure").await?;
    world.host.saved().await?;
    let bytes = std::fs::read(world.host.checkpoint())?;
    let permissions = std::fs::metadata(world.host.checkpoint())?.permissions();
    assert_eq!(permissions.mode() & 0o777, 0o600);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("open.example"), "it holds what is no secret");
    let lines = key.lines().filter(|line| !line.starts_with("-----"));
    for secret in lines.chain(["correct-horse", "PRIVATE KEY"]) {
        assert!(!text.contains(secret), "{secret} is in the checkpoint");
    }

    kill_both(&mut world).await?;
    let away = Away::take(&world.host)?;
    world.host.launch_again()?;
    served(&world, "open", "open.example", "a").await?;
    assert_eq!(with_key.send().await?.status, 404);
    not_ready(&world.host).await?;
    away.bring_back()?;
    world.host.ready().await?;
    world.status(&with_key, 200).await?;
    world.host.programmed("Gateway", "secure").await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_result_that_was_good_outlives_the_host_while_its_module_fails() -> anyhow::Result<()> {
    let policy = |metadata: &str| {
        path_route_at("r.example", "r", "a")
            + &format!(
                "apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {{name: p{metadata}}}
spec:
  type: hello
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}}]
"
            )
    };
    let long = policy(&format!(", annotations: {{long: {}}}", "x".repeat(4096)));
    let document = r#"{"targets": [{"object": {"group": "gateway.networking.k8s.io",
        "kind": "HTTPRoute", "namespace": "default", "name": "r"}}],
        "default": [{"responseHeaders": {"set": [{"name": "x-hello", "value": "kept"}]}}]}"#;
    let traps_on_long = "(if (i32.gt_u (local.get 9) (i32.const 4096)) (then unreachable))";
    let component = guest::answering("hello", "1.0.0", traps_on_long, document)?;
    let mut world = World::start(&policy("")).await?;
    let hello = module::config_map("hello", "1.0.0", &component)?;
    world.host.write("module.yaml", &hello)?;
    let kept = async |world: &World| {
        let ask = world.get("/r").host("r.example");
        let check = |answer: &chiton_tests::http::Answer| match answer.header("x-hello") {
            "kept" => Ok(()),
            other => Err(format!("x-hello is {other:?}")),
        };
        world.host.eventually(&ask, check).await.map(drop)
    };
    kept(&world).await?;
    world.host.saved().await?;

    // It breaks while nobody watches, and stays broken over another restart.
    for _ in 0..2 {
        kill_both(&mut world).await?;
        world.replace(&long)?;
        world.host.start_again().await?;
        kept(&world).await?;
        let said = world
            .host
            .condition("Policy", "p", "Reconciled", "False")
            .await?;
        assert!(
            said.starts_with("ModuleFailed: ") && said.contains("the last good result stays"),
            "{said}"
        );
        world.host.saved().await?;
    }
    world.host.stop().await
}
