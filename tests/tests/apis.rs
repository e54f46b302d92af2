//! What an `API` makes of its routes, with real requests.

use chiton_tests::http::Ask;
use chiton_tests::manifests::{named_rule, prefix, route, route_with, rule, to};
use chiton_tests::{World, http};

/// An API at `/orders` with these other fields.
fn api(name: &str, fields: &str) -> String {
    format!(
        "apiVersion: chiton.dev/v1alpha1
kind: API
metadata: {{name: {name}}}
spec: {{{fields}}}
---
"
    )
}

const ORDERS: &str = "basePath: /orders, version: v1, production: {name: live}";

/// A route whose paths are behind the API's prefix.
fn live() -> String {
    let rewrite = |change: &str| {
        format!(
            "filters: [{{type: URLRewrite, urlRewrite: {{path: {{{change}}}}}}}], {}",
            to("a")
        )
    };
    let redirect = |fields: &str| {
        format!("filters: [{{type: RequestRedirect, requestRedirect: {{{fields}}}}}]")
    };
    let rules = [
        rule(&prefix("/"), &to("a")),
        named_rule("exact", "{path: {type: Exact, value: /exact}}"),
        named_rule(
            "regex",
            "{path: {type: RegularExpression, value: '/[0-9]+|/x'}}",
        ),
        rule(
            &prefix("/items"),
            &rewrite("type: ReplacePrefixMatch, replacePrefixMatch: /things"),
        ),
        rule(
            &prefix("/whole"),
            &rewrite("type: ReplaceFullPath, replaceFullPath: /w"),
        ),
        rule(
            &prefix("/old"),
            &redirect("path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}"),
        ),
        rule(
            &prefix("/full"),
            &redirect("path: {type: ReplaceFullPath, replaceFullPath: /f}"),
        ),
        rule(&prefix("/same"), &redirect("hostname: other.org")),
    ]
    .concat();
    route("live", &rules)
}

#[tokio::test]
async fn routes_come_behind_base_path_and_version() -> anyhow::Result<()> {
    let world = World::start(&(live() + &api("orders", ORDERS))).await?;
    world.host.programmed("API", "orders").await?;
    for (path, seen, by) in [
        ("/orders/v1", "/", ""),
        ("/orders/v1/", "/", ""),
        ("/orders/v1?x=1", "/?x=1", ""),
        ("/orders/v1/deep/er?x=1", "/deep/er?x=1", ""),
        ("/orders/v1/exact", "/exact", "exact"),
        ("/orders/v1/exact/more", "/exact/more", ""),
        ("/orders/v1/42", "/42", "regex"),
        ("/orders/v1/x", "/x", "regex"),
        ("/orders/v1/42/more", "/42/more", ""),
        ("/orders/v1/items/7", "/things/7", ""),
        ("/orders/v1/whole/7?x=1", "/w?x=1", ""),
    ] {
        let answer = world.get(path).send().await?;
        assert_eq!(answer.status, 200, "{path}");
        let found = (answer.seen_path(), answer.seen("x-rule"));
        assert_eq!(found, (seen.to_owned(), by.to_owned()), "{path}");
    }
    // A route that an API names is not served on its own, and the version must be there.
    for path in [
        "/",
        "/exact",
        "/orders",
        "/orders/v2",
        "/orders/v10",
        "/v1",
        "/x/orders/v1",
    ] {
        assert_eq!(world.get(path).send().await?.status, 404, "{path}");
    }
    let at = format!("http://x.org:{}", world.port);
    for (path, location) in [
        ("/orders/v1/old/x?y=1", format!("{at}/orders/v1/new/x?y=1")),
        ("/orders/v1/full/x", format!("{at}/orders/v1/f")),
        (
            "/orders/v1/same/x",
            format!("http://other.org:{}/orders/v1/same/x", world.port),
        ),
    ] {
        let answer = world.get(path).host("x.org").send().await?;
        assert_eq!(answer.status, 302);
        assert_eq!(answer.header("location"), location, "{path}");
    }
    world.host.stop().await
}

#[tokio::test]
async fn the_default_version_is_served_without_it_too() -> anyhow::Result<()> {
    let versions = |default: &str| {
        ["v1", "v2"].map(|version| {
            api(
                version,
                &format!(
                    "basePath: /orders, version: {version}, isDefaultVersion: {}, production: \
                     {{name: {version}}}",
                    version == default
                ),
            )
        })
    };
    let routes =
        route("v1", &rule(&prefix("/"), &to("a"))) + &route("v2", &rule(&prefix("/"), &to("b")));
    let world = World::start(&(routes.clone() + &versions("v1").concat())).await?;
    for api in ["v1", "v2"] {
        world.host.programmed("API", api).await?;
    }
    let check = async |cases: [(&str, &str); 3]| {
        for (path, backend) in cases {
            let answer = world.get(path).send().await?;
            assert_eq!(answer.backend(), backend, "{path}");
            assert_eq!(answer.seen_path(), "/x", "{path}");
        }
        anyhow::Ok(())
    };
    check([
        ("/orders/v1/x", "a"),
        ("/orders/v2/x", "b"),
        ("/orders/x", "a"),
    ])
    .await?;
    world.replace(&(routes + &versions("v2").concat()))?;
    world.served_by("/orders/x", "b").await?;
    check([
        ("/orders/v1/x", "a"),
        ("/orders/v2/x", "b"),
        ("/orders/x", "b"),
    ])
    .await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_header_chooses_the_sandbox() -> anyhow::Result<()> {
    let sandbox = "sandbox: {name: test}, sandboxHeader: {name: X-Environment, value: sandbox}";
    let manifests = [
        route("live", &rule(&prefix("/"), &to("a"))),
        route(
            "test",
            &(rule(&prefix("/"), &to("b")) + &rule(&prefix("/only"), &to("c"))),
        ),
        api("orders", &format!("{ORDERS}, {sandbox}")),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    world.host.programmed("API", "orders").await?;
    let get = |path: &str| world.get(path);
    let with = |path: &str, value: &str| world.get(path).header("x-environment", value);
    let cases: [(Ask, &str); 6] = [
        (get("/orders/v1/x"), "a"),
        (with("/orders/v1/x", "production"), "a"),
        (with("/orders/v1/x", "Sandbox"), "a"),
        (with("/orders/v1/x", "sandbox"), "b"),
        (with("/orders/v1/only", "sandbox"), "c"),
        (get("/orders/v1/only"), "a"),
    ];
    for (ask, backend) in cases {
        assert_eq!(ask.send().await?.backend(), backend, "{ask:?}");
    }
    world.host.stop().await
}

#[tokio::test]
async fn hosts_choose_the_sandbox_where_no_header_does() -> anyhow::Result<()> {
    let at = |name: &str, host: &str, backend: &str| {
        route_with(
            name,
            &format!("parentRefs: [{{name: gateway}}]\n  hostnames: [{host}]"),
            &rule(&prefix("/"), &to(backend)),
        )
    };
    let manifests = [
        at("live", "api.example", "a"),
        at("test", "sandbox.example", "b"),
        api("orders", &format!("{ORDERS}, sandbox: {{name: test}}")),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    world.host.programmed("API", "orders").await?;
    for (host, backend) in [
        ("api.example", "a"),
        ("sandbox.example", "b"),
        ("x.example", ""),
    ] {
        let answer = http::get(world.port, "/orders/v1/x")
            .host(host)
            .send()
            .await?;
        assert_eq!(answer.backend(), backend, "{host}");
        let answer = http::get(world.port, "/x").host(host).send().await?;
        assert_eq!(answer.status, 404, "{host}");
    }
    world.host.stop().await
}

#[tokio::test]
async fn of_two_apis_with_one_prefix_the_first_is_served() -> anyhow::Result<()> {
    let routes = ["live", "late"].map(|name| {
        let backend = if name == "live" { "a" } else { "b" };
        route(name, &rule(&prefix("/"), &to(backend)))
    });
    let first = api("aaa", ORDERS);
    let second = api(
        "bbb",
        "basePath: /orders/v1, version: v1, isDefaultVersion: true, production: {name: late}",
    );
    let world = World::start(&(routes.concat() + &second + &first)).await?;
    world.host.programmed("API", "aaa").await?;
    assert_eq!(world.get("/orders/v1/x").send().await?.backend(), "a");
    // What it does not lose it serves: the bare base path.
    world.served_by("/orders/x", "b").await?;
    let reason = world
        .host
        .condition("API", "bbb", "Conflicted", "True")
        .await?;
    assert!(
        reason.contains("/orders/v1") && reason.contains("default/aaa"),
        "{reason}"
    );
    world
        .host
        .condition("API", "bbb", "Accepted", "True")
        .await?;

    // Without anything left it is not accepted.
    let all = second.replace("isDefaultVersion: true", "isDefaultVersion: false");
    world.replace(&(routes.concat() + &all + &first))?;
    let reason = world
        .host
        .condition("API", "bbb", "Accepted", "False")
        .await?;
    assert!(reason.starts_with("Conflicted"), "{reason}");
    world.status(&world.get("/orders/x"), 404).await?;

    // When the first goes, the other takes over.
    world.replace(&(routes.concat() + &all))?;
    world.served_by("/orders/v1/x", "b").await?;
    world
        .host
        .condition("API", "bbb", "Accepted", "True")
        .await?;
    // Nobody names `live` now: it is served on its own.
    world.served_by("/x", "a").await?;
    world.host.stop().await
}

#[tokio::test]
async fn an_api_that_is_invalid_does_not_bare_its_route() -> anyhow::Result<()> {
    let broken = api("orders", &ORDERS.replace("version: v1", "version: v/1"));
    let other = route_with(
        "other",
        "parentRefs: [{name: gateway}]\n  hostnames: [other.example]",
        &rule(&prefix("/"), &to("b")),
    );
    let world = World::start(&(live() + &broken + &other)).await?;
    world.host.programmed("HTTPRoute", "other").await?;
    let reason = world
        .host
        .condition("API", "orders", "Accepted", "False")
        .await?;
    assert!(reason.contains("spec.version"), "{reason}");
    assert_eq!(world.get("/exact").send().await?.status, 404);
    assert_eq!(world.get("/orders/v1/exact").send().await?.status, 404);
    world.replace(&(live() + &api("orders", ORDERS) + &other))?;
    world.served_by("/orders/v1/exact", "a").await?;
    // A route that does not exist is said, and what is there is served.
    let half = format!("{ORDERS}, sandbox: {{name: nobody}}");
    world.replace(&(live() + &api("orders", &half) + &other))?;
    let reason = world
        .host
        .condition("API", "orders", "ResolvedRefs", "False")
        .await?;
    assert!(reason.contains("default/nobody"), "{reason}");
    assert_eq!(world.get("/orders/v1/exact").send().await?.backend(), "a");
    world.host.stop().await
}
