//! Filters that change headers, of rules and of single backends, with real requests.

use chiton_tests::World;
use chiton_tests::manifests::{prefix, route, rule, to};

/// A filter of request or response headers.
fn change(of: &str, changes: &str) -> String {
    let field = of[..1].to_ascii_lowercase() + &of[1..];
    format!("{{type: {of}HeaderModifier, {field}HeaderModifier: {{{changes}}}}}")
}

fn with(path: &str, filters: &[String]) -> String {
    let fields = format!("filters: [{}], {}", filters.join(", "), to("a"));
    rule(&prefix(path), &fields)
}

#[tokio::test]
async fn request_headers_are_set_added_and_removed() -> anyhow::Result<()> {
    let rules = [
        with(
            "/all",
            &[change(
                "Request",
                "set: [{name: X-Set, value: new}], add: [{name: x-add, value: more}], remove: \
                 [X-Gone, x-never]",
            )],
        ),
        with(
            "/text",
            &[change(
                "Request",
                "set: [{name: x-set, value: '100%REQ(x)% a, \"b\"'}]",
            )],
        ),
        with("/none", &[]),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/none", "a").await?;
    let ask = |path| {
        let ask = world
            .get(path)
            .header("x-set", "old")
            .header("x-add", "old");
        ask.header("x-gone", "1").header("x-kept", "1")
    };
    let answer = ask("/all").send().await?;
    assert_eq!(answer.seen("x-set"), "new");
    assert_eq!(answer.seen("x-add"), "old,more");
    assert_eq!(answer.seen("x-gone"), "");
    assert_eq!(answer.seen("x-kept"), "1");
    // What is not there is created.
    let answer = world.get("/all").send().await?;
    assert_eq!(answer.seen("x-set"), "new");
    assert_eq!(answer.seen("x-add"), "more");
    // A value is text, whatever Envoy's format strings would make of it.
    let answer = world.get("/text").send().await?;
    assert_eq!(answer.seen("x-set"), "100%REQ(x)% a, \"b\"");
    let answer = ask("/none").send().await?;
    assert_eq!(answer.seen("x-set"), "old");
    assert_eq!(answer.seen("x-gone"), "1");
    world.host.stop().await
}

#[tokio::test]
async fn response_headers_are_set_added_and_removed() -> anyhow::Result<()> {
    let rules = [
        with(
            "/set",
            &[change(
                "Response",
                "set: [{name: X-Backend, value: hidden}]",
            )],
        ),
        with(
            "/add",
            &[change(
                "Response",
                "add: [{name: x-backend, value: more}, {name: x-new, value: one}]",
            )],
        ),
        with("/remove", &[change("Response", "remove: [x-backend]")]),
        with(
            "/both",
            &[
                change("Request", "set: [{name: x-in, value: there}]"),
                change("Response", "set: [{name: x-out, value: back}]"),
            ],
        ),
        with("/none", &[]),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/none", "a").await?;
    for (path, expected) in [
        ("/none", &["a"][..]),
        ("/set", &["hidden"]),
        ("/add", &["a", "more"]),
        ("/remove", &[]),
    ] {
        let answer = world.get(path).send().await?;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header_values("x-backend"), expected, "{path}");
    }
    let answer = world.get("/add").send().await?;
    assert_eq!(answer.header("x-new"), "one");
    let answer = world.get("/both").send().await?;
    assert_eq!(answer.seen("x-in"), "there");
    assert_eq!(answer.header("x-out"), "back");
    world.host.stop().await
}

/// The filters of a backend come after those of its rule, and for its requests only.
#[tokio::test]
async fn a_backend_has_filters_of_its_own() -> anyhow::Result<()> {
    let backend = |name: &str| {
        let request = change("Request", &format!("set: [{{name: x-via, value: {name}}}]"));
        let response = change(
            "Response",
            &format!("add: [{{name: x-via, value: {name}}}]"),
        );
        format!(
            "{{group: chiton.dev, kind: Backend, name: {name}, filters: [{request}, {response}]}}"
        )
    };
    let of_rule = change(
        "Request",
        "set: [{name: x-rule, value: here}, {name: x-via, value: rule}]",
    );
    let plain = "{group: chiton.dev, kind: Backend, name: c}";
    let fields = format!(
        "filters: [{of_rule}], backendRefs: [{}, {}, {plain}]",
        backend("a"),
        backend("b")
    );
    let world = World::start(&route("r", &rule(&prefix("/"), &fields))).await?;
    world.status(&world.get("/"), 200).await?;
    let mut seen = std::collections::BTreeSet::new();
    // Each has a third: the odds that one of them is not drawn in a hundred are 10^-17.
    for _ in 0..100 {
        let answer = world.get("/").send().await?;
        let name = answer.backend();
        let via = if name == "c" { "rule" } else { &name };
        assert_eq!(answer.seen("x-via"), via);
        assert_eq!(answer.seen("x-rule"), "here");
        let expected = if name == "c" { "" } else { &name };
        assert_eq!(answer.header("x-via"), expected);
        seen.insert(name);
    }
    assert_eq!(seen.into_iter().collect::<String>(), "abc");
    world.host.stop().await
}

#[tokio::test]
async fn a_filter_that_may_not_be_breaks_its_rule_alone() -> anyhow::Result<()> {
    let rules = [
        with(
            "/host",
            &[change("Request", "set: [{name: host, value: x}]")],
        ),
        with(
            "/crlf",
            &[change(
                "Request",
                "set: [{name: x-a, value: \"a\\r\\nb: c\"}]",
            )],
        ),
        with("/good", &[]),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/good", "a").await?;
    for path in ["/host", "/crlf"] {
        assert_eq!(world.get(path).send().await?.status, 500, "{path}");
    }
    let reason = world
        .host
        .condition("HTTPRoute", "r", "PartiallyInvalid", "True")
        .await?;
    assert!(
        reason.contains("rules[0]") && reason.contains("rules[1]"),
        "{reason}"
    );
    world.host.stop().await
}
