//! Modules from ConfigMaps: put in charge, swapped, refused and removed while requests flow.

mod guest;

use chiton_tests::http::Answer;
use chiton_tests::{Host, Load, Metrics, World, module, paths, quickstart, wait};
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the two versions of `hello` say for the text `world`.
const OLD: &str = "world";
const NEW: &str = "Hello, world!";

/// The file of the module's ConfigMap.
const MODULE: &str = "module.yaml";

/// Connections of a load, and requests a second on each.
const WORKERS: u32 = 4;
const PER_SECOND: u32 = 75;

/// A route, and a policy of the type `hello` on it.
const POLICY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{group: chiton.dev, kind: Backend, name: a}]}]
---
apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {name: p}
spec:
  type: hello
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]
  default: {text: world}
";

/// A world in which version 1 of `hello` is live.
async fn world() -> anyhow::Result<World> {
    let world = World::start(POLICY).await?;
    world.host.write(MODULE, &quickstart::hello(1)?)?;
    says(&world, OLD).await?;
    Ok(world)
}

/// A `policy` document that sets the header on the route.
fn document(value: &str) -> String {
    format!(
        r#"{{"targets": [{{"object": {{"group": "gateway.networking.k8s.io",
           "kind": "HTTPRoute", "namespace": "default", "name": "r"}}}}],
           "default": [{{"responseHeaders": {{"set": [{{"name": "x-hello", "value": "{value}"}}]}}}}]}}"#
    )
}

/// Waits until the header of the policy has this value.
async fn says(world: &World, value: &str) -> anyhow::Result<Answer> {
    let check = |answer: &Answer| header_is(answer, &[value]);
    world.host.eventually(&world.get("/"), check).await
}

/// Answered by the backend, and the header has one of these values.
fn header_is(answer: &Answer, values: &[&str]) -> Result<(), String> {
    let header = answer.header("x-hello");
    if answer.backend() == "a" && values.contains(&header) {
        Ok(())
    } else {
        Err(format!("{} with x-hello {header:?}", answer.status))
    }
}

fn load(world: &World, values: &'static [&'static str]) -> Load {
    let check = move |answer: &Answer| header_is(answer, values);
    Load::start_checked(world.port, &world.get("/"), WORKERS, PER_SECOND, check)
}

/// Live version of `hello`; empty if there is none.
async fn live(host: &Host) -> anyhow::Result<String> {
    let modules = host.modules("hello").await?;
    let live = modules.iter().find(|module| module["state"] == "live");
    Ok(live
        .and_then(|module| module["version"].as_str())
        .unwrap_or_default()
        .to_owned())
}

#[tokio::test]
async fn swaps_under_load_lose_no_request_and_show_one_version_or_the_other() -> anyhow::Result<()>
{
    let world = world().await?;
    let [old, new] = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let counts = [old.clone(), new.clone()];
    let load = Load::start_checked(
        world.port,
        &world.get("/"),
        WORKERS,
        PER_SECOND,
        move |answer| {
            header_is(answer, &[OLD, NEW])?;
            let seen = usize::from(answer.header("x-hello") == NEW);
            counts[seen].fetch_add(1, Ordering::Relaxed);
            Ok(())
        },
    );
    for (version, value) in [(2, NEW), (1, OLD), (2, NEW), (1, OLD)] {
        world.host.write(MODULE, &quickstart::hello(version)?)?;
        says(&world, value).await?;
        load.send_more(50).await?;
    }
    load.flawless(50).await?;
    assert!(
        old.load(Ordering::Relaxed) > 0,
        "the load saw no old version"
    );
    assert!(
        new.load(Ordering::Relaxed) > 0,
        "the load saw no new version"
    );

    assert_eq!(live(&world.host).await?, "1.0.0");
    let retired = world.host.module("hello", "2.0.0", "retired").await?;
    assert_eq!(retired["reason"], "replaced by version 1.0.0");
    world.host.stop().await
}

#[tokio::test]
async fn without_its_module_a_policy_says_so_and_the_route_goes_on() -> anyhow::Result<()> {
    let world = World::start(POLICY).await?;
    let unknown = world
        .host
        .condition("Policy", "p", "Accepted", "False")
        .await?;
    assert!(unknown.starts_with("ModuleNotFound: "), "{unknown}");
    says(&world, "").await?;

    let load = load(&world, &[OLD, ""]);
    world.host.write(MODULE, &quickstart::hello(1)?)?;
    says(&world, OLD).await?;
    world
        .host
        .condition("Policy", "p", "Accepted", "True")
        .await?;

    world.host.remove(MODULE)?;
    says(&world, "").await?;
    let gone = world
        .host
        .condition("Policy", "p", "Accepted", "False")
        .await?;
    assert_eq!(gone, unknown);
    let retired = world.host.module("hello", "1.0.0", "retired").await?;
    assert_eq!(retired["reason"], "its ConfigMap is gone");

    world.host.write(MODULE, &quickstart::hello(1)?)?;
    says(&world, OLD).await?;
    load.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_broken_version_is_refused_and_the_live_one_outlives_restarts() -> anyhow::Result<()> {
    let mut world = world().await?;
    let serving = load(&world, &[OLD]);
    let component = std::fs::read(paths::guest("hello-v2")?)?;
    let half = component.get(..component.len() / 2).unwrap_or_default();
    world
        .host
        .write(MODULE, &module::config_map("hello", "2.0.0", half)?)?;
    let refused = world.host.module("hello", "2.0.0", "refused").await?;
    let reason = refused["reason"].as_str().unwrap_or_default().to_owned();
    assert!(!reason.is_empty(), "{refused}");
    assert!(
        world.host.process().output().contains(&reason),
        "the terminal does not say {reason:?}: {}",
        world.host.process().output()
    );
    // Something that is refused later is not mixed up with it.
    let nothing = module::config_map("hello", "3.0.0", &[])?;
    world.host.write(MODULE, &nothing)?;
    world.host.module("hello", "3.0.0", "refused").await?;
    assert_eq!(live(&world.host).await?, "1.0.0");
    serving.flawless(50).await?;

    // Its bytes are nowhere but in the data folder now.
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        world.host.stop_by(signal).await?;
        world.host.start_again().await?;
        says(&world, OLD).await?;
        world.host.module("hello", "1.0.0", "live").await?;
        world.host.module("hello", "3.0.0", "refused").await?;
        world
            .host
            .condition("Policy", "p", "Accepted", "True")
            .await?;
    }
    world.host.write(MODULE, &quickstart::hello(2)?)?;
    says(&world, NEW).await?;
    world.host.stop().await
}

#[tokio::test]
async fn what_traps_or_loops_on_an_object_that_was_fine_fails_its_trial() -> anyhow::Result<()> {
    let world = world().await?;
    let load = load(&world, &[OLD]);
    for (version, body, expected) in [
        ("2.0.0", "unreachable", "unreachable"),
        (
            "3.0.0",
            "(loop $again (br $again)) unreachable",
            "1000 ms had passed",
        ),
    ] {
        let component = guest::policy("hello", version, body)?;
        world
            .host
            .write(MODULE, &module::config_map("hello", version, &component)?)?;
        let refused = world.host.module("hello", version, "refused").await?;
        let reason = refused["reason"].as_str().unwrap_or_default();
        assert!(
            reason.contains("default/p") && reason.contains(expected),
            "{reason}"
        );
        assert_eq!(live(&world.host).await?, "1.0.0");
    }
    load.flawless(50).await?;

    // Nothing is lost for what comes after.
    world.host.write(MODULE, &quickstart::hello(2)?)?;
    says(&world, NEW).await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_module_replaces_a_built_in_policy_and_gives_it_back() -> anyhow::Result<()> {
    let policy = POLICY.replace("type: hello", "type: headers").replace(
        "default: {text: world}",
        "default: {response: {set: [{name: x-hello, value: built-in}]}}",
    );
    let world = World::start(&policy).await?;
    says(&world, "built-in").await?;

    let component = guest::answering("headers", "9.0.0", "", &document("replaced"))?;
    let load = load(&world, &["built-in", "replaced"]);
    world
        .host
        .write(MODULE, &module::config_map("headers", "9.0.0", &component)?)?;
    says(&world, "replaced").await?;
    let live = world.host.module("headers", "9.0.0", "live").await?;
    assert_eq!(live["source"], "ConfigMap default/headers-module");

    world.host.remove(MODULE)?;
    says(&world, "built-in").await?;
    load.flawless(50).await?;
    let modules = world.host.modules("headers").await?;
    let built_in = modules
        .iter()
        .find(|module| module["source"] == "built-in" && module["state"] == "live");
    assert!(built_in.is_some(), "{modules:#?}");
    world.host.stop().await
}

#[tokio::test]
async fn a_live_module_that_traps_on_one_object_keeps_its_last_result_and_touches_no_other()
-> anyhow::Result<()> {
    let world = World::start(POLICY).await?;
    let traps_on_long_objects = "(if (i32.gt_u (local.get 9) (i32.const 4096)) (then unreachable))";
    let component = guest::answering("hello", "1.0.0", traps_on_long_objects, &document("kept"))?;
    world
        .host
        .write(MODULE, &module::config_map("hello", "1.0.0", &component)?)?;
    says(&world, "kept").await?;
    let load = load(&world, &["kept"]);

    let long = format!(
        "metadata: {{name: p, annotations: {{long: {}}}}}",
        "x".repeat(4096)
    );
    world.replace(&POLICY.replace("metadata: {name: p}", &long))?;
    let said = world
        .host
        .condition("Policy", "p", "Reconciled", "False")
        .await?;
    assert!(
        said.starts_with("ModuleFailed: ") && said.contains("the last good result stays"),
        "{said}"
    );
    let failing = world.host.module("hello", "1.0.0", "live").await?;
    assert_eq!(failing["failures"], 1, "{failing}");
    let metrics = Metrics::of(&world.host).await?;
    let failed = [("module", "hello"), ("outcome", "module_failed")];
    assert_eq!(metrics.count("chiton_reconciles_total", &failed), 1);

    // An object without a last result has no effect, and all others go on.
    let other = POLICY
        .replace("metadata: {name: r}", "metadata: {name: other}")
        .replace("name: r}]", "name: other}]")
        .replace("metadata: {name: p}", &long.replace("name: p", "name: q"))
        .replace(
            "rules: [{",
            "rules: [{matches: [{path: {type: PathPrefix, value: /other}}], ",
        );
    world.write("other.yaml", &other)?;
    world.served_by("/other", "a").await?;
    let said = world
        .host
        .condition("Policy", "q", "Accepted", "False")
        .await?;
    assert!(said.starts_with("ModuleFailed: "), "{said}");

    world.replace(POLICY)?;
    wait::until("the policy is reconciled again", async || {
        let policy = world.host.object("Policy", "p").await;
        let policy = policy.map_err(|error| format!("{error:#}"))?;
        if policy.to_string().contains("Reconciled") {
            Err(format!("{policy:#}"))
        } else {
            Ok(())
        }
    })
    .await?;
    load.flawless(50).await?;
    world.host.stop().await
}
