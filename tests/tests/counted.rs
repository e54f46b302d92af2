//! How much work a change costs: counted, not timed.

use chiton_tests::{Metrics, World};

const ROUTES: usize = 200;

/// A route for a hostname of its own and what begins with a path.
fn route(number: usize, path: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r{number}}}
spec:
  parentRefs: [{{name: gateway}}]
  hostnames: [r{number}.example]
  rules:
    - matches: [{{path: {{type: PathPrefix, value: {path}}}}}]
      backendRefs: [{{group: chiton.dev, kind: Backend, name: a}}]
---
"
    )
}

fn policy(value: &str) -> String {
    format!(
        "apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {{name: wide}}
spec:
  type: headers
  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}}]
  default: {{response: {{set: [{{name: x-wide, value: {value}}}]}}}}
"
    )
}

/// A world of 200 routes, with a policy on the whole Gateway.
async fn world() -> anyhow::Result<World> {
    let routes: String = (0..ROUTES).map(|number| route(number, "/")).collect();
    let world = World::start(&routes).await?;
    world.write("policy.yaml", &policy("first"))?;
    wide(&world, "first").await?;
    world.host.programmed("Policy", "wide").await?;
    world.host.programmed("Gateway", "gateway").await?;
    world.host.programmed("HTTPRoute", "r199").await?;
    Ok(world)
}

/// Waits until answers have the policy's header with this value.
async fn wide(world: &World, value: &str) -> anyhow::Result<()> {
    let ask = world.get("/").host("r0.example");
    let check = |answer: &chiton_tests::http::Answer| match answer.header("x-wide") {
        header if header == value && answer.status == 200 => Ok(()),
        header => Err(format!("{} with x-wide {header:?}", answer.status)),
    };
    world.host.eventually(&ask, check).await.map(drop)
}

/// Reconciles by module, and what was sent by type.
#[derive(Debug, PartialEq)]
struct Work {
    reconciles: u64,
    by: u64,
    virtual_hosts: u64,
    route_configs: u64,
    sent: u64,
    removals: u64,
}

/// What was done between two moments; `module` is the one that should have done it.
fn between(before: &Metrics, after: &Metrics, module: &str) -> Work {
    let grown = |name: &str, labels: &[(&str, &str)]| {
        after.count(name, labels) - before.count(name, labels)
    };
    let sent = |labels: &[(&str, &str)]| grown("chiton_xds_resources_sent_total", labels);
    Work {
        reconciles: grown("chiton_reconciles_total", &[]),
        by: grown("chiton_reconciles_total", &[("module", module)]),
        virtual_hosts: sent(&[("type", "VirtualHost")]),
        route_configs: sent(&[("type", "RouteConfiguration")]),
        sent: sent(&[]),
        removals: grown("chiton_xds_removals_sent_total", &[]),
    }
}

#[tokio::test]
async fn a_changed_route_costs_one_reconcile_and_one_virtual_host() -> anyhow::Result<()> {
    let world = world().await?;
    let routes = |path: &str| -> String {
        let prefix = |number| if number == 100 { path } else { "/" };
        (0..ROUTES)
            .map(|number| route(number, prefix(number)))
            .collect()
    };
    let before = Metrics::of(&world.host).await?;
    // Two changes, so that what the first one brings late is counted too.
    for path in ["/first", "/second"] {
        world.replace(&routes(path))?;
        let ask = |path: &str| world.get(path).host("r100.example");
        world.status(&ask(path), 200).await?;
        world.status(&ask("/other"), 404).await?;
    }
    world.host.programmed("HTTPRoute", "r100").await?;
    let after = Metrics::of(&world.host).await?;
    let expected = Work {
        reconciles: 2,
        by: 2,
        virtual_hosts: 2,
        route_configs: 0,
        sent: 2,
        removals: 0,
    };
    assert_eq!(
        between(&before, &after, "route"),
        expected,
        "{}",
        after.text()
    );
    world.host.stop().await
}

#[tokio::test]
async fn a_changed_policy_of_the_whole_gateway_costs_one_reconcile_and_one_route_configuration()
-> anyhow::Result<()> {
    let world = world().await?;
    let before = Metrics::of(&world.host).await?;
    for value in ["second", "third"] {
        world.write("policy.yaml", &policy(value))?;
        wide(&world, value).await?;
    }
    world.host.programmed("Policy", "wide").await?;
    let after = Metrics::of(&world.host).await?;
    let expected = Work {
        reconciles: 2,
        by: 2,
        virtual_hosts: 0,
        route_configs: 2,
        sent: 2,
        removals: 0,
    };
    assert_eq!(
        between(&before, &after, "headers"),
        expected,
        "{}",
        after.text()
    );
    world.host.stop().await
}
