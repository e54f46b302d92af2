//! Effects: API keys, CORS, headers, fixed answers.

use crate::backend::Backend;
use crate::gateway::{Gateway, RC};
use crate::values::{at, cluster, effects, entry, exact, host, prefix, set};
use chiton::synchronizer::{envoy, model};
use chiton_ir::policy::{ApiKey, Cors, Effect, KeySource, Respond};
use std::sync::Arc;

fn keyed(keys: Option<&[(&str, &str)]>) -> model::Effects {
    let settings = ApiKey {
        secrets: Vec::new(),
        sources: vec![
            KeySource::Header("X-Api-Key".into()),
            KeySource::Query("key".into()),
            KeySource::Cookie("key".into()),
        ],
        client_header: Some("X-Client".into()),
    };
    let mut found = effects("b", vec![Effect::ApiKey(settings)]);
    let credentials = keys.map(|keys| {
        let credential = |(client, key): &(&str, &str)| model::Credential {
            client: (*client).into(),
            key: (*key).into(),
        };
        Arc::new(keys.iter().map(credential).collect::<Vec<_>>())
    });
    for placed in found.values_mut() {
        placed.keys.clone_from(&credentials);
    }
    found
}

fn with(effects: model::Effects, mut found: model::RouteEntry) -> model::RouteEntry {
    found.effects = effects;
    found
}

#[tokio::test]
async fn only_who_has_a_key_is_let_in() {
    let a = Backend::start("a").await;
    let keys = [("alice", "1"), ("bob", "2"), ("carol", "2"), ("dave", "")];
    let mut free = at(exact("/free"));
    free.without = vec!["apiKey"];
    let mut wide = host("wide.example", vec![free, entry()]);
    wide.effects = keyed(Some(&keys));
    let hosts = [
        host("key.example", vec![with(keyed(Some(&keys)), entry())]),
        host("nobody.example", vec![with(keyed(None), entry())]),
        host("empty.example", vec![with(keyed(Some(&[])), entry())]),
        host("open.example", vec![entry()]),
        wide,
    ];
    let gateway = Gateway::serve(&hosts, cluster("a", &[&a])).await;
    for (host, path, headers, status, client) in [
        ("key.example", "/", &[][..], 401, ""),
        ("key.example", "/", &[("x-api-key", "3")], 401, ""),
        ("key.example", "/", &[("x-api-key", "")], 401, ""),
        ("key.example", "/?key=", &[], 401, ""),
        ("key.example", "/", &[("x-api-key", "1")], 200, "alice"),
        (
            "key.example",
            "/?key=2",
            &[("x-client", "root")],
            200,
            "bob",
        ),
        ("key.example", "/", &[("cookie", "key=1")], 200, "alice"),
        ("nobody.example", "/", &[("x-api-key", "1")], 401, ""),
        ("nobody.example", "/", &[], 401, ""),
        ("empty.example", "/", &[("x-api-key", "")], 401, ""),
        ("open.example", "/", &[], 200, ""),
        ("wide.example", "/", &[], 401, ""),
        ("wide.example", "/", &[("x-api-key", "1")], 200, "alice"),
        ("wide.example", "/free", &[], 200, ""),
    ] {
        let answer = gateway.send(host, path, headers).await;
        assert_eq!(
            answer.status, status,
            "{host} {path} {headers:?}: {answer:?}"
        );
        if !client.is_empty() {
            assert_eq!(answer.sent("x-client"), [client], "{host} {headers:?}");
        }
    }
}

fn cors(origins: &[&str]) -> model::Effects {
    effects(
        "b",
        vec![Effect::Cors(Cors {
            allow_origins: origins.iter().map(ToString::to_string).collect(),
            allow_methods: vec!["GET".into(), "PUT".into()],
            allow_headers: vec!["x-a".into()],
            expose_headers: vec!["x-b".into()],
            allow_credentials: true,
            max_age_seconds: Some(60),
        })],
    )
}

#[tokio::test]
async fn browsers_are_told_what_they_may() {
    let a = Backend::start("a").await;
    let mut put = entry();
    put.matches.method = Some("PUT".into());
    let mut both = cors(&["https://a.example"]);
    both.extend(keyed(None));
    let hosts = [
        host(
            "cors.example",
            vec![with(
                cors(&["https://a.example", "https://*.b.example"]),
                entry(),
            )],
        ),
        host("any.example", vec![with(cors(&["*"]), entry())]),
        host("put.example", vec![with(cors(&["*"]), put)]),
        host("key.example", vec![with(both, entry())]),
    ];
    let gateway = Gateway::serve(&hosts, cluster("a", &[&a])).await;
    for (host, origin, allowed) in [
        ("cors.example", "https://a.example", true),
        ("cors.example", "https://x.b.example", true),
        ("cors.example", "https://x.y.b.example", true),
        ("cors.example", "https://b.example", false),
        ("cors.example", "https://evil.example/.b.example", false),
        ("cors.example", "https://axexample", false),
        ("any.example", "https://whoever", true),
    ] {
        let answer = gateway.send(host, "/", &[("origin", origin)]).await;
        let expected = allowed.then_some(origin);
        assert_eq!(
            answer.header("access-control-allow-origin"),
            expected,
            "{host} {origin}"
        );
        assert_eq!(answer.status, 200);
    }
    let before = a.seen().len();
    for (host, method, allowed) in [
        ("cors.example", "PUT", true),
        ("put.example", "PUT", true),
        ("key.example", "GET", true),
    ] {
        let preflight = [
            (":method", "OPTIONS"),
            ("origin", "https://a.example"),
            ("access-control-request-method", method),
        ];
        let answer = gateway.send(host, "/", &preflight).await;
        assert_eq!(answer.status, 200, "{host}");
        assert_eq!(
            answer.header("access-control-allow-origin").is_some(),
            allowed
        );
        assert_eq!(
            answer.header("access-control-allow-methods"),
            Some("GET, PUT")
        );
        assert_eq!(answer.header("access-control-max-age"), Some("60"));
    }
    let stranger = [
        (":method", "OPTIONS"),
        ("origin", "https://evil.example"),
        ("access-control-request-method", "PUT"),
    ];
    let answer = gateway.send("cors.example", "/", &stranger).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(a.seen().len(), before, "no preflight reaches a backend");
    assert_eq!(gateway.get("put.example", "/").await.status, 404);
    let plain = [(":method", "OPTIONS"), ("origin", "https://a.example")];
    assert_eq!(gateway.send("put.example", "/", &plain).await.status, 404);
}

#[tokio::test]
async fn the_more_specific_headers_and_answers_win() {
    let a = Backend::start("a").await;
    let request = |value: &str| effects("b", vec![Effect::RequestHeaders(set("x-a", value))]);
    let mut config = request("config");
    config.extend(effects(
        "b",
        vec![Effect::ResponseHeaders(set("x-b", "config"))],
    ));
    let mut other = at(prefix("/other"));
    other.effects = effects("b", vec![Effect::RequestHeaders(set("x-c", "route"))]);
    let mut without = at(prefix("/without"));
    without.without = vec!["requestHeaders"];
    let respond = |status| {
        effects(
            "b",
            vec![Effect::Respond(Respond {
                status,
                body: "closed".into(),
            })],
        )
    };
    let mut open = at(prefix("/open"));
    open.without = vec!["respond"];
    let mut closed = host(
        "closed.example",
        vec![open, with(respond(410), at(exact("/own"))), at(exact("/a"))],
    );
    closed.effects = respond(503);
    let hosts = [
        host(
            "h.example",
            vec![
                other,
                without,
                with(request("route"), at(prefix("/route"))),
                entry(),
            ],
        ),
        closed,
    ];
    let mut others = cluster("a", &[&a]);
    others.push(envoy::route_config(&model::RouteConfig {
        name: RC.into(),
        effects: config,
    }));
    let gateway = Gateway::serve(&hosts, others).await;
    for (path, x_a, x_c) in [
        ("/", "config", ""),
        ("/route", "route", ""),
        ("/without", "", ""),
        ("/other", "", "route"),
    ] {
        let answer = gateway.get("h.example", path).await;
        assert_eq!(answer.sent("x-a").concat(), x_a, "{path}");
        assert_eq!(answer.sent("x-c").concat(), x_c, "{path}");
        // One route's request headers do not take the gateway's response headers away.
        assert_eq!(answer.header("x-b"), Some("config"), "{path}");
    }
    for (path, status) in [
        ("/keyed", 503),
        ("/open", 200),
        ("/own", 410),
        ("/a", 503),
        ("/unknown", 503),
    ] {
        let answer = gateway.get("closed.example", path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.body == "closed", status != 200);
    }
}
