//! The built-in policies, with real requests through a real Envoy.

use chiton_tests::World;
use chiton_tests::manifests::policy;
use hyper::Method;

/// One route `r`: `/a` to backend a (rule `first`), `/b` to backend b.
const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: gateway}]
  rules:
    - name: first
      matches: [{path: {type: PathPrefix, value: /a}}]
      backendRefs: [{group: chiton.dev, kind: Backend, name: a}]
    - matches: [{path: {type: PathPrefix, value: /b}}]
      backendRefs: [{group: chiton.dev, kind: Backend, name: b}]
---
";

const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}";
const WHOLE_ROUTE: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";
const FIRST_RULE: &str =
    "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: first}";

#[tokio::test]
async fn headers_change_requests_and_responses() -> anyhow::Result<()> {
    let settings = "default: {request: {set: [{name: x-in, value: one}], remove: [x-out]}, \
                    response: {add: [{name: x-answer, value: two}]}}";
    let world =
        World::start(&(ROUTE.to_owned() + &policy("p", "headers", WHOLE_ROUTE, settings))).await?;
    world.served_by("/a", "a").await?;
    let answer = world
        .get("/a")
        .header("x-out", "gone")
        .header("x-in", "zero")
        .send()
        .await?;
    assert_eq!(answer.seen("x-in"), "one");
    assert_eq!(answer.seen("x-out"), "");
    assert_eq!(answer.header("x-answer"), "two");
    world.host.stop().await
}

#[tokio::test]
async fn the_more_specific_default_and_the_higher_override_win() -> anyhow::Result<()> {
    let header = |kind: &str, name: &str, value: &str| {
        format!("{kind}: {{response: {{set: [{{name: {name}, value: {value}}}]}}}}")
    };
    let default_above = policy(
        "default-above",
        "headers",
        GATEWAY,
        &header("default", "x-who", "gateway"),
    );
    let default_below = policy(
        "default-below",
        "headers",
        FIRST_RULE,
        &header("default", "x-who", "rule"),
    );
    let world = World::start(&(ROUTE.to_owned() + &default_above + &default_below)).await?;
    world.served_by("/a", "a").await?;
    assert_eq!(world.get("/a").send().await?.header("x-who"), "rule");
    assert_eq!(world.get("/b").send().await?.header("x-who"), "gateway");

    let override_above = policy(
        "override-above",
        "headers",
        GATEWAY,
        &header("override", "x-who", "boss"),
    );
    world.replace(&(ROUTE.to_owned() + &default_above + &default_below + &override_above))?;
    for path in ["/a", "/b"] {
        world
            .host
            .eventually(&world.get(path), |answer| match answer.header("x-who") {
                "boss" => Ok(()),
                other => Err(format!("x-who is {other}")),
            })
            .await?;
    }
    let reason = world
        .host
        .condition("Policy", "default-below", "Accepted", "False")
        .await?;
    assert!(reason.contains("override-above"), "{reason}");
    world.host.stop().await
}

#[tokio::test]
async fn cors_answers_preflights_and_names_the_origin() -> anyhow::Result<()> {
    let settings = "default: {allowOrigins: ['https://app.example', 'https://*.wild.example'], \
                    allowMethods: [GET, PUT], allowHeaders: [x-token], maxAgeSeconds: 60}";
    let world =
        World::start(&(ROUTE.to_owned() + &policy("p", "cors", WHOLE_ROUTE, settings))).await?;
    world.served_by("/a", "a").await?;
    let preflight = world
        .get("/a")
        .method(Method::OPTIONS)
        .header("origin", "https://app.example")
        .header("access-control-request-method", "PUT")
        .send()
        .await?;
    assert_eq!(preflight.status, 200);
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        "https://app.example"
    );
    assert_eq!(preflight.header("access-control-max-age"), "60");
    assert!(
        preflight
            .header("access-control-allow-methods")
            .contains("PUT")
    );

    let wild = world
        .get("/a")
        .header("origin", "https://x.wild.example")
        .send()
        .await?;
    assert_eq!(
        wild.header("access-control-allow-origin"),
        "https://x.wild.example"
    );
    let other = world
        .get("/a")
        .header("origin", "https://evil.example")
        .send()
        .await?;
    assert_eq!(other.header("access-control-allow-origin"), "");
    world.host.stop().await
}

#[tokio::test]
async fn an_api_key_is_asked_for_and_its_client_named() -> anyhow::Result<()> {
    let secret = "
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {alice: secret-a, bob: secret-b}
---
";
    let settings = "default: {secretRefs: [{name: keys}], in: header, name: x-api-key, clientHeader: x-client}";
    let manifests = ROUTE.to_owned() + secret + &policy("p", "api-key", WHOLE_ROUTE, settings);
    let world = World::start(&manifests).await?;
    world.status(&world.get("/a"), 401).await?;
    assert_eq!(
        world
            .get("/a")
            .header("x-api-key", "wrong")
            .send()
            .await?
            .status,
        401
    );
    let alice = world
        .get("/a")
        .header("x-api-key", "secret-a")
        .send()
        .await?;
    assert_eq!(
        (alice.status.as_u16(), alice.seen("x-client").as_str()),
        (200, "alice")
    );
    let bob = world
        .get("/a")
        .header("x-api-key", "secret-b")
        .send()
        .await?;
    assert_eq!(
        (bob.status.as_u16(), bob.seen("x-client").as_str()),
        (200, "bob")
    );

    // Without its Secret nobody gets in, and the policy says why.
    world.replace(&(ROUTE.to_owned() + &policy("p", "api-key", WHOLE_ROUTE, settings)))?;
    world
        .host
        .condition("Policy", "p", "ResolvedRefs", "False")
        .await?;
    world
        .status(&world.get("/a").header("x-api-key", "secret-a"), 401)
        .await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_rate_limit_holds_while_its_neighbours_change() -> anyhow::Result<()> {
    let settings = "default: {requests: 3, per: hour}";
    let manifests = ROUTE.to_owned() + &policy("p", "rate-limit", FIRST_RULE, settings);
    let world = World::start(&manifests).await?;
    world.served_by("/b", "b").await?;
    for _ in 0..3 {
        assert_eq!(world.get("/a").send().await?.status, 200);
    }
    assert_eq!(world.get("/a").send().await?.status, 429);

    // A neighbour comes, changes and goes; the bucket stays empty.
    for target in ["b", "c"] {
        let neighbour = format!(
            "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: neighbour}}
spec:
  parentRefs: [{{name: gateway}}]
  rules:
    - matches: [{{path: {{type: PathPrefix, value: /n}}}}]
      backendRefs: [{{group: chiton.dev, kind: Backend, name: {target}}}]
"
        );
        world.write("neighbour.yaml", &neighbour)?;
        world.served_by("/n", target).await?;
        assert_eq!(world.get("/a").send().await?.status, 429);
    }
    world.host.remove("neighbour.yaml")?;
    world.status(&world.get("/n"), 404).await?;
    assert_eq!(world.get("/a").send().await?.status, 429);
    assert_eq!(world.get("/b").send().await?.status, 200);
    world.host.stop().await
}

#[tokio::test]
async fn a_gateway_wide_rate_limit_counts_all_its_routes() -> anyhow::Result<()> {
    let manifests = ROUTE.to_owned()
        + &policy(
            "p",
            "rate-limit",
            GATEWAY,
            "default: {requests: 4, per: hour}",
        );
    let world = World::start(&manifests).await?;
    world.host.programmed("Policy", "p").await?;
    let mut statuses = Vec::new();
    for path in ["/a", "/b", "/a", "/b", "/a", "/b"] {
        statuses.push(world.get(path).send().await?.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    world.host.stop().await
}
