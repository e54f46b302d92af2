//! What policies are put on, and what becomes of those that cannot hold, with real requests.

use chiton_tests::manifests::{policy, prefix, route, rule, to};
use chiton_tests::{World, http, paths};
use hyper::Method;

/// Settings of a `headers` policy that says who won.
fn who(name: &str) -> String {
    format!("default: {{response: {{set: [{{name: x-who, value: {name}}}]}}}}")
}

const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}";
const API: &str = "{group: chiton.dev, kind: API, name: orders}";
const ROUTE: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";

const ORDERS: &str = "apiVersion: chiton.dev/v1alpha1
kind: API
metadata: {name: orders}
spec: {basePath: /orders, version: v1, isDefaultVersion: true, production: {name: r}}
---
";

#[tokio::test]
async fn a_listener_has_policies_of_its_own() -> anyhow::Result<()> {
    let [port] = paths::free_ports()?;
    let section = |name: &str| {
        format!(
            "{{group: gateway.networking.k8s.io, kind: Gateway, name: two, sectionName: {name}}}"
        )
    };
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: two}}
spec:
  gatewayClassName: chiton
  listeners:
    - {{name: one, protocol: HTTP, port: {port}, hostname: one.example}}
    - {{name: two, protocol: HTTP, port: {port}, hostname: two.example}}
---
"
    );
    let routes =
        route("r", &rule(&prefix("/"), &to("a"))).replace("[{name: gateway}]", "[{name: two}]");
    let whole = GATEWAY.replace("name: gateway}", "name: two}");
    let manifests = [
        gateway,
        routes,
        policy("whole", "headers", &whole, &who("gateway")),
        policy("one", "headers", &section("one"), &who("listener")),
        policy(
            "limit",
            "rate-limit",
            &section("two"),
            "default: {requests: 2, per: hour}",
        ),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for name in ["whole", "one", "limit"] {
        world.host.programmed("Policy", name).await?;
    }
    let get = async |host: &str| http::get(port, "/").host(host).send().await;
    for _ in 0..4 {
        let answer = get("one.example").await?;
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-who")),
            (200, "listener")
        );
    }
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let answer = get("two.example").await?;
        assert_eq!(answer.header("x-who"), "gateway");
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    world.host.stop().await
}

#[tokio::test]
async fn an_api_stands_between_gateway_and_route() -> anyhow::Result<()> {
    let manifests = [
        route("r", &rule(&prefix("/"), &to("a"))),
        route("plain", &rule(&prefix("/plain"), &to("b"))),
        ORDERS.to_owned(),
        policy("of-gateway", "headers", GATEWAY, &who("gateway")),
        policy("of-api", "headers", API, &who("api")),
        policy(
            "limit",
            "rate-limit",
            API,
            "default: {requests: 4, per: hour}",
        ),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for name in ["of-gateway", "of-api", "limit"] {
        world.host.programmed("Policy", name).await?;
    }
    assert_eq!(world.get("/plain").send().await?.header("x-who"), "gateway");
    // The limit counts the API as a whole, under both its prefixes.
    let mut statuses = Vec::new();
    for path in [
        "/orders/v1/x",
        "/orders/x",
        "/orders/v1",
        "/orders",
        "/orders/v1",
        "/orders",
    ] {
        let answer = world.get(path).send().await?;
        assert_eq!(answer.header("x-who"), "api", "{path}");
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);

    // A default of the route, which is below, wins; an override of the API's wins against it.
    let of_route = policy("of-route", "headers", ROUTE, &who("route"));
    let changed = async |manifests: String, expected: &str| {
        world.replace(&manifests)?;
        let check = |answer: &http::Answer| match answer.header("x-who") {
            found if found == expected => Ok(()),
            found => Err(found.to_owned()),
        };
        world.host.eventually(&world.get("/orders"), check).await
    };
    changed(manifests.clone() + &of_route, "route").await?;
    let over = manifests.replace(&who("api"), &who("api").replace("default", "override"));
    changed(over + &of_route, "api").await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_policy_that_cannot_hold_says_so_and_changes_nothing() -> anyhow::Result<()> {
    let missing = ROUTE.replace("name: r}", "name: nobody}");
    let manifests = [
        route("r", &rule(&prefix("/"), &to("a"))),
        policy("unknown", "no-such-module", ROUTE, "default: {}"),
        policy(
            "schema",
            "headers",
            ROUTE,
            "default: {responses: {set: []}}",
        ),
        policy(
            "value",
            "rate-limit",
            ROUTE,
            "default: {requests: 0, per: hour}",
        ),
        policy("target", "headers", &missing, &who("nobody")),
        policy(
            "forbidden",
            "headers",
            ROUTE,
            "default: {request: {set: [{name: host, value: x}]}}",
        ),
        policy("good", "headers", ROUTE, &who("good")),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    world.host.programmed("Policy", "good").await?;
    for (name, expected) in [
        ("unknown", "ModuleNotFound"),
        ("schema", "Invalid"),
        ("value", "Invalid"),
        ("target", "TargetNotFound"),
        ("forbidden", "Invalid"),
    ] {
        let reason = world
            .host
            .condition("Policy", name, "Accepted", "False")
            .await?;
        assert!(reason.starts_with(expected), "{name}: {reason}");
    }
    let answer = world.get("/").send().await?;
    assert_eq!(
        (answer.status.as_u16(), answer.header("x-who")),
        (200, "good")
    );
    // Mended, it holds.
    world.replace(
        &manifests
            .replace(
                "responses: {set: []}",
                "response: {set: [{name: x-mended, value: 'yes'}]}",
            )
            .replace("name: good}", "name: zzz}"),
    )?;
    world
        .host
        .eventually(&world.get("/"), |answer| match answer.header("x-mended") {
            "yes" => Ok(()),
            _ => Err("not mended".into()),
        })
        .await?;
    world.host.stop().await
}

/// A preflight has neither the method nor the headers of the request that it asks for.
#[tokio::test]
async fn preflights_are_answered_where_a_rule_wants_headers_and_methods() -> anyhow::Result<()> {
    let at = |path: &str, rest: &str| format!("{{path: {{value: {path}}}, {rest}}}");
    let rules = [
        rule(&at("/put", "method: PUT"), &to("a")),
        rule(
            &at("/header", "headers: [{name: x-token, value: t}]"),
            &to("b"),
        ),
    ]
    .concat();
    let settings = "default: {allowOrigins: ['https://app.example'], allowMethods: [GET, PUT], \
                    allowHeaders: [x-token]}";
    let api = policy("api", "cors", API, settings);
    let wide = policy("wide", "cors", GATEWAY, settings);
    for (target, before, path) in [("Gateway", wide, ""), ("API", api + ORDERS, "/orders")] {
        let world = World::start(&(route("r", &rules) + &before)).await?;
        world.host.programmed("HTTPRoute", "r").await?;
        for (at, method) in [("/put", "PUT"), ("/header", "GET")] {
            let ask = world
                .get(&format!("{path}{at}"))
                .header("origin", "https://app.example");
            let preflight = ask
                .clone()
                .method(Method::OPTIONS)
                .header("access-control-request-method", method)
                .header("access-control-request-headers", "x-token");
            world.status(&preflight, 200).await?;
            let answer = preflight.send().await?;
            assert_eq!(
                answer.header("access-control-allow-origin"),
                "https://app.example",
                "{target} {at}"
            );
            let request = ask
                .method(method.parse()?)
                .header("x-token", "t")
                .send()
                .await?;
            assert_eq!(request.status, 200, "{target} {at}");
            assert_eq!(
                request.header("access-control-allow-origin"),
                "https://app.example",
                "{target} {at}"
            );
        }
        // Nothing else is answered there.
        let other = world.get(&format!("{path}/put")).send().await?;
        assert_eq!(other.status, 404, "{target}");
        world.host.stop().await?;
    }
    Ok(())
}
