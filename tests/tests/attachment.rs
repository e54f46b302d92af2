//! Which routes a listener takes, and how Gateways share ports, with real requests.

use chiton_tests::manifests::{named_rule, prefix, route_with};
use chiton_tests::{World, http, paths, wait};

/// A Gateway with these listeners, in YAML's flow style.
fn gateway(name: &str, listeners: &[String]) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec: {{gatewayClassName: chiton, listeners: [{}]}}
---
",
        listeners.join(", ")
    )
}

fn listener(name: &str, port: u16, more: &str) -> String {
    format!("{{name: {name}, protocol: HTTP, port: {port}{more}}}")
}

/// A route whose requests can be told by its name.
fn route(name: &str, parent: &str) -> String {
    route_with(
        name,
        &format!("parentRefs: [{parent}]"),
        &named_rule(name, &prefix("/")),
    )
}

/// The route that answers at a host and port; empty: none.
async fn by(port: u16, host: &str) -> anyhow::Result<String> {
    let answer = http::get(port, "/").host(host).send().await?;
    Ok(answer.seen("x-rule"))
}

#[tokio::test]
async fn a_listener_says_which_namespaces_it_takes() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let from = |name: &str, from: &str| {
        let more = format!(", hostname: {name}.example, allowedRoutes: {{namespaces: {{{from}}}}}");
        listener(name, port, &more)
    };
    let gateway = gateway(
        "doors",
        &[
            from("same", "from: Same"),
            from("all", "from: All"),
            from(
                "some",
                "from: Selector, selector: {matchLabels: {team: red}}",
            ),
        ],
    );
    let far = |name: &str| {
        route(
            name,
            &format!("{{name: doors, namespace: default, sectionName: {name}}}"),
        )
        .replace(
            &format!("{{name: {name}}}\nspec"),
            &format!("{{name: {name}, namespace: far}}\nspec"),
        )
    };
    let namespace = |team: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: far, labels: {{team: {team}}}}}\n"
        )
    };
    let backend = "apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {name: a, namespace: far}
spec: {endpoints: [{host: 127.0.0.1, port: $A}]}
---
";
    let routes = ["same", "all", "some"].map(far).concat();
    let world = World::start(&(gateway + backend + &routes)).await?;
    world.host.programmed("HTTPRoute", "all").await?;
    assert_eq!(by(port, "all.example").await?, "all");
    assert_eq!(by(port, "same.example").await?, "");
    assert_eq!(by(port, "some.example").await?, "");
    for name in ["same", "some"] {
        let reason = world
            .host
            .condition("HTTPRoute", name, "Accepted", "False")
            .await?;
        assert!(reason.starts_with("NotAllowedByListeners"), "{reason}");
    }
    // The labels of the namespace decide, whenever they change.
    let ask = http::get(port, "/").host("some.example");
    world.write("namespace.yaml", &namespace("red"))?;
    world.status(&ask, 200).await?;
    world.write("namespace.yaml", &namespace("blue"))?;
    world.status(&ask, 404).await?;
    assert_eq!(by(port, "all.example").await?, "all");
    world.host.stop().await
}

#[tokio::test]
async fn a_parent_is_a_section_a_port_or_all() -> anyhow::Result<()> {
    let [one, two] = paths::free_ports()?;
    let manifests = [
        gateway(
            "doors",
            &[
                listener("one", one, ""),
                listener("two", two, ""),
                listener("named", two, ", hostname: named.example"),
            ],
        ),
        route("everywhere", "{name: doors}").replace(
            "- {matches: [{path: {type: PathPrefix, value: /}}]",
            "- {matches: [{path: {value: /everywhere}}]",
        ),
        route("section", "{name: doors, sectionName: one}"),
        route("port", &format!("{{name: doors, port: {two}}}")),
        route("nowhere", "{name: doors, sectionName: three}"),
        route("nobody", "{name: nobody}"),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for name in ["everywhere", "section", "port"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    assert_eq!(by(one, "x.example").await?, "section");
    assert_eq!(by(two, "x.example").await?, "port");
    assert_eq!(by(two, "named.example").await?, "port");
    for (port, host) in [
        (one, "x.example"),
        (two, "x.example"),
        (two, "named.example"),
    ] {
        let answer = http::get(port, "/everywhere").host(host).send().await?;
        assert_eq!(answer.seen("x-rule"), "everywhere", "{port} {host}");
    }
    for (name, what) in [("nowhere", "section three"), ("nobody", "does not exist")] {
        let reason = world
            .host
            .condition("HTTPRoute", name, "Accepted", "False")
            .await?;
        assert!(reason.starts_with("NoMatchingParent"), "{reason}");
        assert!(reason.contains(what), "{reason}");
    }
    let gateway = world.host.object("Gateway", "doors").await?;
    let counts = serde_json::json!({"one": 2, "two": 2, "named": 2});
    assert_eq!(gateway["attachedRoutes"], counts);
    world.host.stop().await
}

/// In file mode one fleet serves all Gateways: two may share a port, but not a hostname.
#[tokio::test]
async fn two_gateways_share_a_port_and_the_first_gets_what_both_want() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let at = |name: &str| listener("http", port, &format!(", hostname: {name}.example"));
    let both = listener("both", port, ", hostname: both.example");
    let first = gateway("aaa", &[at("a"), both.clone()]) + &route("first", "{name: aaa}");
    let second = gateway("bbb", &[at("b"), both]) + &route("second", "{name: bbb}");
    let world = World::start(&(second.clone() + &first)).await?;
    for name in ["first", "second"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    for (host, route) in [
        ("a.example", "first"),
        ("b.example", "second"),
        ("both.example", "first"),
    ] {
        assert_eq!(by(port, host).await?, route, "{host}");
    }
    let loser = world.host.object("Gateway", "bbb").await?.to_string();
    assert!(loser.contains("HostnameConflict"), "{loser}");
    assert!(loser.contains("default/aaa"), "{loser}");
    // The winner goes: the other one serves all that it asks for.
    world.replace(&second)?;
    wait::until("the second has it", async || {
        match by(port, "both.example").await {
            Ok(name) if name == "second" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    assert_eq!(by(port, "b.example").await?, "second");
    assert_eq!(by(port, "a.example").await?, "");
    // The last one goes: nothing listens.
    world.host.remove("test.yaml")?;
    wait::until("nothing listens", async || {
        match http::get(port, "/").send().await {
            Err(_) => Ok(()),
            Ok(answer) => Err(format!("{answer:?}")),
        }
    })
    .await?;
    world.host.stop().await
}
