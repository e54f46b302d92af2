//! Services, their slices, and references to what is not there or not allowed, with real requests.

use anyhow::Context as _;
use chiton_tests::World;
use chiton_tests::manifests::{prefix, route, rule, service, slice, to};
use std::collections::BTreeSet;

/// A rule for a path that goes to a port of a Service; `more` may name its namespace.
fn served(path: &str, name: &str, port: u16, more: &str) -> String {
    rule(
        &prefix(path),
        &format!("backendRefs: [{{name: {name}, port: {port}{more}}}]"),
    )
}

/// Reconciles of all modules, and epochs, so far.
async fn work(world: &World) -> anyhow::Result<(u64, u64)> {
    let text = world.host.admin("/metrics").await?.body;
    let text = String::from_utf8(text.to_vec())?;
    let sum = |metric: &str| {
        let values = text.lines().filter(|line| line.starts_with(metric));
        values
            .map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<u64>())
            .sum::<Result<u64, _>>()
            .with_context(|| metric.to_owned())
    };
    Ok((
        sum("chiton_reconciles_total{")?,
        sum("chiton_epochs_total ")?,
    ))
}

#[tokio::test]
async fn a_port_is_found_by_its_name_in_the_slices() -> anyhow::Result<()> {
    let manifests = [
        // The numbers of targets are the slices' affair; those that the Service names are not looked at.
        service(
            "named",
            "{name: web, port: 80, targetPort: 9}, {name: admin, port: 81, targetPort: other}",
        ),
        slice(
            "named-1",
            "named",
            true,
            "{name: admin, port: $B}, {name: web, port: $A}",
        ),
        service("single", "{port: 80, targetPort: web}"),
        slice("single-1", "single", true, "{name: '', port: $C}"),
        route(
            "r",
            &[
                served("/web", "named", 80, ""),
                served("/admin", "named", 81, ""),
                served("/single", "single", 80, ""),
                served("/no-port", "named", 82, ""),
            ]
            .concat(),
        ),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for (path, backend) in [("/web", "a"), ("/admin", "b"), ("/single", "c")] {
        world.served_by(path, backend).await?;
    }
    assert_eq!(world.get("/no-port").send().await?.status, 500);
    let reason = world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "False")
        .await?;
    assert!(reason.starts_with("BackendNotFound"), "{reason}");
    world.host.stop().await
}

#[tokio::test]
async fn only_ready_endpoints_get_requests() -> anyhow::Result<()> {
    let slices = |a: bool, b: bool| {
        slice("s-1", "s", a, "{name: web, port: $A}")
            + &slice("s-2", "s", b, "{name: web, port: $B}")
    };
    let routes = service("s", "{name: web, port: 80}")
        + &route(
            "r",
            &(served("/", "s", 80, "") + &rule(&prefix("/b"), &to("b"))),
        );
    let world = World::start(&routes).await?;
    // A Service without slices has no endpoints.
    world.status(&world.get("/"), 503).await?;

    world.write("slices.yaml", &slices(false, true))?;
    world.served_by("/", "b").await?;
    let before = work(&world).await?;
    for _ in 0..20 {
        assert_eq!(world.get("/").send().await?.backend(), "b");
    }
    // Both, the other one, none: endpoints come and go, and no reconciler runs.
    world.write("slices.yaml", &slices(true, true))?;
    world.served_by("/", "a").await?;
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        seen.insert(world.get("/").send().await?.backend());
    }
    assert_eq!(seen, ["a".to_owned(), "b".to_owned()].into());
    world.write("slices.yaml", &slices(true, false))?;
    world
        .host
        .eventually(&world.get("/"), |answer| {
            assert_eq!(answer.status, 200, "a gap");
            (answer.backend() == "a")
                .then_some(())
                .ok_or_else(|| "b".into())
        })
        .await?;
    world.write("slices.yaml", &slices(false, false))?;
    world.status(&world.get("/"), 503).await?;
    let after = work(&world).await?;
    assert_eq!(before.0, after.0, "no reconciler runs for endpoints");
    assert!(after.1 >= before.1 + 3, "the changes were committed");
    // No ready endpoint is no fault of the route's.
    world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "True")
        .await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_service_that_comes_and_goes() -> anyhow::Result<()> {
    let routes = route(
        "r",
        &(served("/s", "s", 80, "")
            + &served("/kind", "s", 80, ", group: apps, kind: Deployment")
            + &rule(&prefix("/b"), &to("b"))),
    );
    let world = World::start(&routes).await?;
    world.served_by("/b", "b").await?;
    assert_eq!(world.get("/s").send().await?.status, 500);
    assert_eq!(world.get("/kind").send().await?.status, 500);
    let reason = world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "False")
        .await?;
    assert!(reason.starts_with("BackendNotFound"), "{reason}");
    assert!(reason.contains("default/s does not exist"), "{reason}");
    assert!(reason.contains("Deployment"), "{reason}");

    let good = route(
        "r",
        &(served("/s", "s", 80, "") + &rule(&prefix("/b"), &to("b"))),
    );
    world.replace(&good)?;
    // The slice may be there before its Service.
    world.write(
        "slice.yaml",
        &slice("s-1", "s", true, "{name: web, port: $A}"),
    )?;
    world.write("service.yaml", &service("s", "{name: web, port: 80}"))?;
    world.served_by("/s", "a").await?;
    world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "True")
        .await?;
    // An update of the Service that renames its port moves to what the slices call so.
    world.write("service.yaml", &service("s", "{name: other, port: 80}"))?;
    world.status(&world.get("/s"), 503).await?;
    world.write(
        "slice.yaml",
        &slice("s-1", "s", true, "{name: other, port: $C}"),
    )?;
    world.served_by("/s", "c").await?;
    world.host.remove("service.yaml")?;
    world.status(&world.get("/s"), 500).await?;
    world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "False")
        .await?;
    world.served_by("/b", "b").await?;
    world.host.stop().await
}

#[tokio::test]
async fn another_namespace_must_grant_references() -> anyhow::Result<()> {
    let other = |manifest: String| manifest.replace("metadata: {", "metadata: {namespace: other, ");
    let backend = "apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {name: far}
spec: {endpoints: [{host: 127.0.0.1, port: $C}]}
---
";
    let far = "backendRefs: [{group: chiton.dev, kind: Backend, name: far, namespace: other}]";
    let manifests = [
        other(service("s", "{name: web, port: 80}")),
        other(slice("s-1", "s", true, "{name: web, port: $B}")),
        other(backend.to_owned()),
        route(
            "r",
            &(served("/s", "s", 80, ", namespace: other") + &rule(&prefix("/a"), &to("a"))),
        ),
        route("far", &rule(&prefix("/far"), far)),
    ]
    .concat();
    let grant = |version: &str, from: &str, to: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/{version}
kind: ReferenceGrant
metadata: {{name: g, namespace: other}}
spec:
  from: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: {from}}}]
  to: [{to}]
"
        )
    };
    let world = World::start(&manifests).await?;
    world.served_by("/a", "a").await?;
    for (route, path) in [("r", "/s"), ("far", "/far")] {
        assert_eq!(world.get(path).send().await?.status, 500, "{path}");
        let reason = world
            .host
            .condition("HTTPRoute", route, "ResolvedRefs", "False")
            .await?;
        assert!(reason.starts_with("RefNotPermitted"), "{reason}");
    }
    // A grant for one kind permits that kind only.
    world.write(
        "grant.yaml",
        &grant("v1beta1", "default", "{group: '', kind: Service}"),
    )?;
    world.served_by("/s", "b").await?;
    world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "True")
        .await?;
    assert_eq!(world.get("/far").send().await?.status, 500);
    // For one name, in the other version.
    let named = "{group: chiton.dev, kind: Backend, name: far}";
    world.write("grant.yaml", &grant("v1", "default", named))?;
    world.served_by("/far", "c").await?;
    world.status(&world.get("/s"), 500).await?;
    // For another namespace it permits nothing here.
    world.write("grant.yaml", &grant("v1", "elsewhere", named))?;
    world.status(&world.get("/far"), 500).await?;
    world.host.remove("grant.yaml")?;
    world.served_by("/a", "a").await?;
    assert_eq!(world.get("/far").send().await?.status, 500);
    world.host.stop().await
}

#[tokio::test]
async fn a_backend_may_have_a_host_name_or_several_addresses() -> anyhow::Result<()> {
    let backend = |name: &str, endpoints: &str| {
        format!(
            "apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {{name: {name}}}
spec: {{endpoints: [{endpoints}]}}
---
"
        )
    };
    let manifests = [
        backend("dns", "{host: localhost, port: $B}"),
        backend(
            "two",
            "{host: 127.0.0.1, port: $A}, {host: 127.0.0.1, port: $C}",
        ),
        backend(
            "mixed",
            "{host: 127.0.0.1, port: $A}, {host: localhost, port: $C}",
        ),
        route(
            "r",
            &(rule(&prefix("/dns"), &to("dns")) + &rule(&prefix("/two"), &to("two"))),
        ),
        route("mixed", &rule(&prefix("/mixed"), &to("mixed"))),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    world.served_by("/dns", "b").await?;
    world.served_by("/two", "a").await?;
    world.served_by("/two", "c").await?;
    world.status(&world.get("/mixed"), 500).await?;
    let reason = world
        .host
        .condition("HTTPRoute", "mixed", "ResolvedRefs", "False")
        .await?;
    assert!(reason.contains("mixes"), "{reason}");
    // The Backend moves: so does traffic.
    world.replace(
        &manifests.replace("{host: localhost, port: $B}", "{host: localhost, port: $C}"),
    )?;
    world.served_by("/dns", "c").await?;
    world.host.stop().await
}
