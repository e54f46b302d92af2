//! Changes of where requests go while requests are on their way: none may fail.

use chiton_tests::load::Load;
use chiton_tests::manifests::{prefix, route, route_with, rule, service, slice, to};
use chiton_tests::{World, http};

/// A load of quick requests and one of requests that take their time, so that each change meets some
/// that wait for their answer.
struct Both {
    quick: Load,
    slow: Load,
}

impl Both {
    fn start(world: &World, path: &str) -> Self {
        let slow = world.get(&format!("{path}?delay_ms=300"));
        Self {
            quick: Load::start(world.port, &world.get(path), 4, 50),
            slow: Load::start(world.port, &slow, 8, 50),
        }
    }

    async fn go_on(&self) -> anyhow::Result<()> {
        self.quick.send_more(20).await?;
        self.slow.send_more(8).await
    }

    async fn flawless(self) -> anyhow::Result<()> {
        self.quick.flawless(100).await?;
        self.slow.flawless(20).await
    }
}

#[tokio::test]
async fn a_route_moves_between_backends() -> anyhow::Result<()> {
    let at = |backend: &str| route("r", &rule(&prefix("/"), &to(backend)));
    let world = World::start(&at("a")).await?;
    world.served_by("/", "a").await?;
    let load = Both::start(&world, "/");
    // The cluster that is left has no user any more, and goes.
    for backend in ["b", "c", "a", "b", "a"] {
        load.go_on().await?;
        world.replace(&at(backend))?;
        world.served_by("/", backend).await?;
    }
    load.go_on().await?;
    load.flawless().await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_backend_and_a_service_change_their_endpoints() -> anyhow::Result<()> {
    let manifests = |port: &str| {
        let backend = format!(
            "apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {{name: moving}}
spec: {{endpoints: [{{host: 127.0.0.1, port: {port}}}]}}
---
"
        );
        [
            backend,
            service("s", "{name: web, port: 80}"),
            slice("s-1", "s", true, &format!("{{name: web, port: {port}}}")),
            route(
                "r",
                &(rule(&prefix("/backend"), &to("moving"))
                    + &rule(&prefix("/service"), "backendRefs: [{name: s, port: 80}]")),
            ),
        ]
        .concat()
    };
    let world = World::start(&manifests("$A")).await?;
    world.served_by("/backend", "a").await?;
    world.served_by("/service", "a").await?;
    let loads = ["/backend", "/service"].map(|path| Both::start(&world, path));
    for (port, name) in [("$B", "b"), ("$C", "c"), ("$A", "a")] {
        for load in &loads {
            load.go_on().await?;
        }
        world.replace(&manifests(port))?;
        world.served_by("/backend", name).await?;
        world.served_by("/service", name).await?;
    }
    for load in loads {
        load.go_on().await?;
        load.flawless().await?;
    }
    world.host.stop().await
}

/// Neighbours come, change and go: routes, hostnames, listeners, policies.
#[tokio::test]
async fn nobody_notices_what_changes_beside_it() -> anyhow::Result<()> {
    let [extra] = chiton_tests::paths::free_ports()?;
    let world = World::start(&route("r", &rule(&prefix("/"), &to("a")))).await?;
    world.served_by("/", "a").await?;
    let load = Both::start(&world, "/");
    let neighbour = |backend: &str| {
        let at = "parentRefs: [{name: gateway}]\n  hostnames: [x.example]";
        route_with("n", at, &rule(&prefix("/"), &to(backend)))
    };
    let policy = "apiVersion: chiton.dev/v1alpha1
kind: Policy
metadata: {name: p}
spec:
  type: headers
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}]
  default: {response: {set: [{name: x-p, value: here}]}}
---
";
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: other}}
spec:
  gatewayClassName: chiton
  listeners: [{{name: http, protocol: HTTP, port: {extra}}}]
---
"
    );
    let host = world.get("/").host("x.example");
    for _ in 0..2 {
        for backend in ["b", "c"] {
            load.go_on().await?;
            world.write("n.yaml", &(neighbour(backend) + policy))?;
            let check = |answer: &http::Answer| {
                let found = (answer.backend(), answer.header("x-p").to_owned());
                let expected = (backend.to_owned(), "here".to_owned());
                (found == expected)
                    .then_some(())
                    .ok_or_else(|| format!("{found:?}"))
            };
            world.host.eventually(&host, check).await?;
        }
        world.write("gateway.yaml", &gateway)?;
        world.host.programmed("Gateway", "other").await?;
        load.go_on().await?;
        world.host.remove("gateway.yaml")?;
        world.host.remove("n.yaml")?;
        // Its hostname is anyone's again.
        world
            .host
            .eventually(&host, |answer| match answer.header("x-p") {
                "" => Ok(()),
                _ => Err("still there".into()),
            })
            .await?;
    }
    load.go_on().await?;
    load.flawless().await?;
    world.host.stop().await
}
