//! What clients may not do: walk around a rule by another spelling of its path, or tell the proxy how
//! to behave. With real requests.

use chiton_tests::World;
use chiton_tests::manifests::{named_rule, prefix, route, rule, to};

#[tokio::test]
async fn a_path_is_matched_as_the_backend_will_understand_it() -> anyhow::Result<()> {
    let rules = [
        named_rule("public", &prefix("/public")),
        named_rule("admin", &prefix("/public/admin")),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/public", "a").await?;
    for (path, seen, by) in [
        ("/public/x", "/public/x", "public"),
        ("/public/x/../admin", "/public/admin", "admin"),
        ("/public/./admin/", "/public/admin/", "admin"),
        ("/public/x/%2e%2E/admin", "/public/admin", "admin"),
        ("/public/x?y=/../admin", "/public/x?y=/../admin", "public"),
        ("/public/%61dmin", "/public/admin", "admin"),
    ] {
        let answer = world.get(path).send().await?;
        let found = (answer.seen_path(), answer.seen("x-rule"));
        assert_eq!(found, (seen.to_owned(), by.to_owned()), "{path}");
    }
    // Out of all rules.
    assert_eq!(world.get("/public/../x").send().await?.status, 404);
    // Whether an escaped slash is a slash is not for the backend to say.
    for path in ["/public/x%2F../admin", "/public%5c..%5Cadmin"] {
        let answer = world.get(path).send().await?;
        assert_eq!(answer.status, 307, "{path}");
    }
    world.host.stop().await
}

#[tokio::test]
async fn headers_of_clients_do_not_steer_the_proxy() -> anyhow::Result<()> {
    let rules = rule(&prefix("/"), &to("a"));
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/", "a").await?;
    let answer = world
        .get("/x?delay_ms=400")
        .header("x-envoy-upstream-rq-timeout-ms", "1")
        .header("x-envoy-upstream-alt-stat-name", "mine")
        .header("x-forwarded-for", "192.0.2.1")
        .header("x-forwarded-proto", "https")
        .header("x_under_score", "kept")
        .send()
        .await?;
    assert_eq!(answer.status, 200, "the client's time limit does not count");
    assert_eq!(answer.seen("x-envoy-upstream-rq-timeout-ms"), "");
    assert_eq!(answer.seen("x-envoy-upstream-alt-stat-name"), "");
    assert_eq!(answer.seen("x-envoy-expected-rq-timeout-ms"), "");
    // The client's address comes behind what it says of others, and how it came is not its to say.
    let forwarded = answer.seen("x-forwarded-for");
    let (said, own) = forwarded.split_once(',').unwrap_or_default();
    assert_eq!(said, "192.0.2.1");
    assert!(own.parse::<std::net::IpAddr>().is_ok(), "{forwarded}");
    assert_eq!(answer.seen("x-forwarded-proto"), "http");
    assert_eq!(answer.seen("x_under_score"), "kept");
    // Nor do answers say what is in front of the backend.
    let names = answer.headers.keys();
    let envoys: Vec<_> = names
        .filter(|name| name.as_str().contains("envoy"))
        .collect();
    assert!(envoys.is_empty(), "{envoys:?}");
    assert_eq!(answer.header("server"), "");
    world.host.stop().await
}
