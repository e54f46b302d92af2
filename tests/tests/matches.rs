//! What an `HTTPRoute` matches, and which match is tried first, with real requests.

use chiton_tests::World;
use chiton_tests::http::Ask;
use chiton_tests::manifests::{named_rule, prefix, route};
use hyper::Method;

/// A request, and the rule that must take it; empty: none, 404.
type Case = (Ask, &'static str);

async fn check(cases: &[Case]) -> anyhow::Result<()> {
    for (ask, rule) in cases {
        let answer = ask.send().await?;
        let expected = if rule.is_empty() { 404 } else { 200 };
        let found = (answer.status.as_u16(), answer.seen("x-rule"));
        assert_eq!(found, (expected, (*rule).to_owned()), "{ask:?}");
    }
    Ok(())
}

#[tokio::test]
async fn paths() -> anyhow::Result<()> {
    let rules = [
        named_rule("exact", "{path: {type: Exact, value: /exact}}"),
        named_rule("slash", "{path: {type: Exact, value: /slash/}}"),
        named_rule("prefix", &prefix("/prefix")),
        named_rule("ended", &prefix("/ended/")),
        named_rule(
            "regex",
            "{path: {type: RegularExpression, value: '/re/[a-z]+(/x)?'}}",
        ),
        named_rule(
            "several",
            "{path: {type: Exact, value: /one}}, {path: {type: Exact, value: /two}}",
        ),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/exact", "a").await?;
    let get = |path| world.get(path);
    let cases = [
        (get("/exact"), "exact"),
        (get("/exact?x=1"), "exact"),
        (get("/exact/"), ""),
        (get("/exact/more"), ""),
        (get("/Exact"), ""),
        (get("/slash/"), "slash"),
        (get("/slash"), ""),
        (get("/prefix"), "prefix"),
        (get("/prefix?x=1"), "prefix"),
        (get("/prefix/"), "prefix"),
        (get("/prefix/deep/er"), "prefix"),
        (get("/prefixed"), ""),
        (get("/PREFIX"), ""),
        (get("/ended"), "ended"),
        (get("/ended/x"), "ended"),
        (get("/endedx"), ""),
        (get("/re/abc"), "regex"),
        (get("/re/abc/x?y=1"), "regex"),
        // The whole path is meant.
        (get("/re/abc/xy"), ""),
        (get("/re/ABC"), ""),
        (get("/more/re/abc"), ""),
        (get("/one"), "several"),
        (get("/two"), "several"),
        (get("/three"), ""),
        (get("/"), ""),
    ];
    check(&cases).await?;
    world.host.stop().await
}

#[tokio::test]
async fn headers_queries_and_methods() -> anyhow::Result<()> {
    let with = |path: &str, rest: &str| format!("{{path: {{value: {path}}}, {rest}}}");
    let rules = [
        named_rule(
            "header",
            &with("/h", "headers: [{name: X-Kind, value: One}]"),
        ),
        named_rule(
            "header-regex",
            &with(
                "/hr",
                "headers: [{name: x-kind, type: RegularExpression, value: 'a+b?'}]",
            ),
        ),
        named_rule(
            "both-headers",
            &with(
                "/hh",
                "headers: [{name: x-a, value: '1'}, {name: x-b, value: '2'}]",
            ),
        ),
        // Of equal names only the first counts.
        named_rule(
            "first-header",
            &with(
                "/hf",
                "headers: [{name: x-a, value: '1'}, {name: X-A, value: '2'}]",
            ),
        ),
        named_rule(
            "query",
            &with("/q", "queryParams: [{name: kind, value: one}]"),
        ),
        named_rule(
            "query-regex",
            &with(
                "/qr",
                "queryParams: [{name: kind, type: RegularExpression, value: '[0-9]+'}]",
            ),
        ),
        named_rule(
            "both-queries",
            &with(
                "/qq",
                "queryParams: [{name: a, value: '1'}, {name: b, value: '2'}]",
            ),
        ),
        named_rule("method", &with("/m", "method: PUT")),
        named_rule(
            "all",
            &with(
                "/all",
                "method: POST, headers: [{name: x-a, value: '1'}], queryParams: [{name: a, value: \
                 '1'}]",
            ),
        ),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world
        .status(&world.get("/m").method(Method::PUT), 200)
        .await?;
    let get = |path| world.get(path);
    let cases = [
        (get("/h").header("x-kind", "One"), "header"),
        (get("/h").header("X-KIND", "One"), "header"),
        (get("/h").header("x-kind", "one"), ""),
        (get("/h").header("x-kind", "One more"), ""),
        (get("/h"), ""),
        (get("/hr").header("x-kind", "aaab"), "header-regex"),
        (get("/hr").header("x-kind", "aaabb"), ""),
        (get("/hr").header("x-kind", "baa"), ""),
        (
            get("/hh").header("x-a", "1").header("x-b", "2"),
            "both-headers",
        ),
        (get("/hh").header("x-a", "1"), ""),
        (get("/hf").header("x-a", "1"), "first-header"),
        (get("/hf").header("x-a", "2"), ""),
        (get("/q?kind=one"), "query"),
        (get("/q?other=1&kind=one"), "query"),
        (get("/q?kind=One"), ""),
        (get("/q?Kind=one"), ""),
        (get("/q"), ""),
        (get("/qr?kind=42"), "query-regex"),
        (get("/qr?kind=42x"), ""),
        (get("/qq?b=2&a=1"), "both-queries"),
        (get("/qq?a=1"), ""),
        (get("/m").method(Method::PUT), "method"),
        (get("/m"), ""),
        (
            get("/all?a=1").method(Method::POST).header("x-a", "1"),
            "all",
        ),
        (get("/all?a=1").header("x-a", "1"), ""),
        (get("/all?a=1").method(Method::POST), ""),
        (get("/all").method(Method::POST).header("x-a", "1"), ""),
    ];
    check(&cases).await?;
    world.host.stop().await
}

/// All rules could take the full request; they stand in the file in the opposite of their order.
#[tokio::test]
async fn the_most_specific_match_goes_first() -> anyhow::Result<()> {
    let at = |rest: &str| format!("{{path: {{value: /p}}, {rest}}}");
    let rules = [
        named_rule("root", &prefix("/")),
        named_rule("short", &prefix("/p")),
        named_rule("query", &at("queryParams: [{name: a, value: '1'}]")),
        named_rule(
            "queries",
            &at("queryParams: [{name: a, value: '1'}, {name: b, value: '2'}]"),
        ),
        named_rule("header", &at("headers: [{name: x-a, value: '1'}]")),
        named_rule(
            "headers",
            &at("headers: [{name: x-a, value: '1'}, {name: x-b, value: '2'}]"),
        ),
        named_rule("method", &at("method: PUT")),
        named_rule("long", &prefix("/p/long")),
        named_rule("exact", "{path: {type: Exact, value: /p/long/exact}}"),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/", "a").await?;
    let full = |path| {
        let ask = world.get(path).method(Method::PUT);
        ask.header("x-a", "1").header("x-b", "2")
    };
    let get = |path| world.get(path);
    let cases = [
        (full("/p/long/exact?a=1&b=2"), "exact"),
        (full("/p/long?a=1&b=2"), "long"),
        (full("/p/x?a=1&b=2"), "method"),
        (
            get("/p?a=1&b=2").header("x-a", "1").header("x-b", "2"),
            "headers",
        ),
        (get("/p?a=1&b=2").header("x-a", "1"), "header"),
        (get("/p?a=1&b=2"), "queries"),
        (get("/p?a=1"), "query"),
        (get("/p"), "short"),
        (get("/q"), "root"),
    ];
    check(&cases).await?;
    world.host.stop().await
}

#[tokio::test]
async fn between_two_routes_the_same_order_holds_and_then_their_names() -> anyhow::Result<()> {
    let alpha = route(
        "alpha",
        &(named_rule("alpha-same", &prefix("/same")) + &named_rule("alpha-short", &prefix("/x"))),
    );
    let beta = route(
        "beta",
        &(named_rule("beta-same", &prefix("/same")) + &named_rule("beta-long", &prefix("/x/y"))),
    );
    // Within a route what comes first in it is first.
    let gamma = route(
        "gamma",
        &(named_rule("gamma-one", &prefix("/twice")) + &named_rule("gamma-two", &prefix("/twice"))),
    );
    let world = World::start(&(beta.clone() + &alpha + &gamma)).await?;
    world.served_by("/same", "a").await?;
    let get = |path| world.get(path);
    let cases = [
        (get("/same"), "alpha-same"),
        (get("/x"), "alpha-short"),
        (get("/x/y"), "beta-long"),
        (get("/twice"), "gamma-one"),
    ];
    check(&cases).await?;

    // What alpha had falls to beta when alpha goes, without a gap.
    world.replace(&(beta + &gamma))?;
    world
        .host
        .eventually(&get("/same"), |answer| {
            assert_eq!(answer.status, 200, "a gap");
            match answer.seen("x-rule").as_str() {
                "beta-same" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
        .await?;
    check(&[(get("/x"), ""), (get("/x/y"), "beta-long")]).await?;
    world.host.stop().await
}
