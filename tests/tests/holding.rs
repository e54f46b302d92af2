//! What Envoy refuses and no check of this project: held back, while everything else goes on.

#[allow(dead_code, reason = "every test file needs another part of it")]
mod guest;
#[allow(dead_code, reason = "every test file needs another part of it")]
mod strict;

use chiton_tests::http::Answer;
use chiton_tests::manifests::policy;
use chiton_tests::{Load, module, wait};
use strict::{Kind, Strict, bad, good, load};

#[tokio::test]
async fn one_route_is_held_under_load_and_its_neighbours_serve_and_change() -> anyhow::Result<()> {
    let both = good("good", "a") + &good("turn", "a");
    let strict = Strict::start(&both).await?;
    let world = &strict.world;
    world.served_by("/good", "a").await?;
    world.served_by("/turn", "a").await?;
    world.host.programmed("HTTPRoute", "turn").await?;
    let loads = [load(world, "/good"), load(world, "/turn")];

    world.replace(&(good("good", "a") + &bad("turn")))?;
    let said = strict.held("HTTPRoute", "turn").await?;
    assert!(said.contains("max program size"), "{said}");
    assert!(said.contains("accepted last is served"), "{said}");
    world.served_by("/turn", "a").await?;
    world.host.programmed("HTTPRoute", "good").await?;
    world.host.programmed("Gateway", "gateway").await?;

    // Neighbours on the same virtual host change, come and go.
    for backend in ["b", "c", "b"] {
        world.replace(&(good("good", backend) + &good("new", backend) + &bad("turn")))?;
        world.served_by("/good", backend).await?;
        world.served_by("/new", backend).await?;
        world.host.programmed("HTTPRoute", "good").await?;
    }
    let refused = world.host.nacks().await?;
    world.replace(&(good("good", "a") + &bad("turn")))?;
    world.served_by("/good", "a").await?;
    assert_eq!(world.host.nacks().await?, refused, "it was tried again");

    world.replace(&(good("good", "a") + &good("turn", "b")))?;
    world.served_by("/turn", "b").await?;
    world.host.programmed("HTTPRoute", "turn").await?;
    for load in loads {
        load.flawless(50).await?;
    }
    strict.stop().await
}

#[tokio::test]
async fn in_the_state_of_the_world_the_same_object_is_held() -> anyhow::Result<()> {
    let both = good("good", "a") + &good("turn", "a");
    let strict = Strict::start_with(&both, &[Kind::StrictSotw]).await?;
    let world = &strict.world;
    world.served_by("/turn", "a").await?;
    world.host.programmed("HTTPRoute", "turn").await?;
    let load = load(world, "/good");
    world.replace(&(good("good", "b") + &bad("turn") + &bad("new")))?;
    for name in ["turn", "new"] {
        let said = strict.held("HTTPRoute", name).await?;
        assert!(said.contains("max program size"), "{said}");
    }
    world.served_by("/good", "b").await?;
    world.served_by("/turn", "a").await?;
    world.host.programmed("HTTPRoute", "good").await?;
    world.replace(&(good("good", "b") + &good("turn", "c")))?;
    world.served_by("/turn", "c").await?;
    world.host.programmed("HTTPRoute", "turn").await?;
    load.flawless(50).await?;
    strict.stop().await
}

#[tokio::test]
async fn several_of_several_kinds_are_found_among_many() -> anyhow::Result<()> {
    let names: Vec<String> = (0..12).map(|index| format!("r{index:02}")).collect();
    let start: String = names.iter().map(|name| good(name, "a")).collect();
    let strict = Strict::start(&(good("still", "a") + &start)).await?;
    let world = &strict.world;
    for name in &names {
        world.served_by(&format!("/{name}"), "a").await?;
    }
    let still = load(world, "/still");
    // Three routes, and a policy whose origin makes an expression that is too large.
    let evil = ["r03", "r04", "r09"];
    let origin = format!(
        "https://*.{}.example",
        "a".repeat(60) + "." + &"b".repeat(60)
    );
    let cors = policy(
        "wide",
        "cors",
        "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r06}",
        &format!("default: {{allowOrigins: ['{origin}']}}"),
    );
    let changed: String = names
        .iter()
        .map(|name| {
            if evil.contains(&name.as_str()) {
                bad(name)
            } else {
                good(name, "b")
            }
        })
        .collect();
    world.replace(&(good("still", "a") + &changed + &cors))?;
    for name in evil {
        strict.held("HTTPRoute", name).await?;
    }
    let said = strict.held("Policy", "wide").await?;
    assert!(said.contains("max program size"), "{said}");
    for name in &names {
        let backend = if evil.contains(&name.as_str()) {
            "a"
        } else {
            "b"
        };
        world.served_by(&format!("/{name}"), backend).await?;
        if backend == "b" {
            world.host.programmed("HTTPRoute", name).await?;
        }
    }
    // Each on its own is let go again.
    world.replace(&(good("still", "a") + &changed.replace("{0,60}", "{0,6}") + &cors))?;
    for name in evil {
        world.host.programmed("HTTPRoute", name).await?;
        world.served_by(&format!("/{name}x"), "c").await?;
    }
    strict.held("Policy", "wide").await?;
    still.flawless(50).await?;
    strict.stop().await
}

#[tokio::test]
async fn a_host_that_starts_again_takes_nothing_away_while_something_is_held() -> anyhow::Result<()>
{
    let mut strict = Strict::start(&(good("good", "a") + &good("turn", "a"))).await?;
    strict.world.served_by("/turn", "a").await?;
    strict.world.host.programmed("HTTPRoute", "turn").await?;
    strict.world.replace(&(good("good", "a") + &bad("turn")))?;
    strict.held("HTTPRoute", "turn").await?;
    let file = strict.world.host.checkpoint();
    wait::until("what is held is saved", async || {
        let saved = std::fs::read(&file).map_err(|error| error.to_string())?;
        let words = b"max program size";
        let mut parts = saved.windows(words.len());
        parts
            .any(|part| part == words)
            .then_some(())
            .ok_or("not yet".to_owned())
    })
    .await?;
    let loads = [load(&strict.world, "/good"), load(&strict.world, "/turn")];
    strict.world.host.kill().await?;
    strict.world.host.start_again().await?;
    let said = strict.held("HTTPRoute", "turn").await?;
    assert!(said.contains("max program size"), "{said}");
    // It is held from the start, so neighbours on its virtual host change meanwhile.
    strict.world.replace(&(good("good", "b") + &bad("turn")))?;
    strict.world.served_by("/good", "b").await?;
    strict.world.served_by("/turn", "a").await?;
    assert_eq!(strict.world.host.nacks().await?, Vec::<String>::new());
    strict
        .world
        .replace(&(good("good", "b") + &good("turn", "c")))?;
    strict.world.served_by("/turn", "c").await?;
    strict.world.host.programmed("HTTPRoute", "turn").await?;
    for load in loads {
        load.flawless(50).await?;
    }
    strict.stop().await
}

/// A `policy` document for the route `r` with one effect.
fn document(effect: &str) -> String {
    format!(
        r#"{{"targets": [{{"object": {{"group": "gateway.networking.k8s.io",
           "kind": "HTTPRoute", "namespace": "default", "name": "r"}}}}], "default": [{effect}]}}"#
    )
}

#[tokio::test]
async fn a_swap_whose_results_proxies_refuse_is_undone() -> anyhow::Result<()> {
    let on = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";
    let strict = Strict::start(&(good("r", "a") + &policy("p", "mark", on, "default: {}"))).await?;
    let world = &strict.world;
    let old = document(r#"{"responseHeaders": {"set": [{"name": "x-mark", "value": "old"}]}}"#);
    let origin = format!("https://*.{}.example", "a".repeat(120));
    let new = document(&format!(r#"{{"cors": {{"allowOrigins": ["{origin}"]}}}}"#));
    let component = guest::answering("mark", "1.0.0", "", &old)?;
    world.host.write(
        "module.yaml",
        &module::config_map("mark", "1.0.0", &component)?,
    )?;
    let marked = |answer: &Answer| match answer.header("x-mark") {
        "old" => Ok(()),
        other => Err(format!("x-mark {other:?}")),
    };
    world.host.eventually(&world.get("/r"), marked).await?;
    world.host.programmed("HTTPRoute", "r").await?;

    let load = Load::start_checked(world.port, &world.get("/r"), 2, 50, marked);
    let component = guest::answering("mark", "2.0.0", "", &new)?;
    world.host.write(
        "module.yaml",
        &module::config_map("mark", "2.0.0", &component)?,
    )?;
    let refused = world.host.module("mark", "2.0.0", "refused").await?;
    let reason = refused["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("was taken back") && reason.contains("max program size"),
        "{reason}"
    );
    world.host.module("mark", "1.0.0", "live").await?;
    world.host.programmed("HTTPRoute", "r").await?;
    load.flawless(50).await?;
    strict.stop().await
}
