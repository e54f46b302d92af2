//! Paths and hosts that change: for backends and in redirects.

use crate::backend::Backend;
use crate::gateway::{Gateway, RC};
use crate::values::{
    at, cluster, entry, exact, found, host, prefix, redirecting, regex, rewrite, under,
};
use chiton::synchronizer::model::{RouteEntry, VirtualHost};
use chiton_ir::route::{Filter, PathChange, Redirect, Rewrite};

fn changed(mut entry: RouteEntry, path: PathChange) -> RouteEntry {
    entry.filters = vec![rewrite(path)];
    entry
}

fn new_prefix(path: &str) -> PathChange {
    PathChange::Prefix(path.into())
}

fn full(path: &str) -> PathChange {
    PathChange::Full(path.into())
}

/// The Gateway API's table of `replacePrefixMatch`, roots, and APIs.
const PATHS: [(&str, &str, &str, &str, &str); 20] = [
    // API, prefix, replacement, request, what the backend sees.
    ("", "/foo", "/xyz", "/foo/bar", "/xyz/bar"),
    ("", "/foo", "/xyz/", "/foo/bar", "/xyz/bar"),
    ("", "/foo/", "/xyz", "/foo/bar", "/xyz/bar"),
    ("", "/foo/", "/xyz/", "/foo/bar?q=/foo", "/xyz/bar?q=/foo"),
    ("", "/foo", "/xyz", "/foo", "/xyz"),
    ("", "/foo", "/xyz", "/foo/", "/xyz/"),
    ("", "/foo", "", "/foo/bar", "/bar"),
    ("", "/foo", "", "/foo/", "/"),
    ("", "/foo", "", "/foo", "/"),
    ("", "/foo", "/", "/foo/", "/"),
    ("", "/foo", "/", "/foo?q", "/?q"),
    ("", "/foo", "/", "/foo/foo", "/foo"),
    ("", "/", "/foo", "/test", "/foo/test"),
    ("", "/", "/foo", "/", "/foo/"),
    ("", "/", "/", "/a", "/a"),
    ("/api/v1", "/foo", "/xyz", "/api/v1/foo/bar", "/xyz/bar"),
    ("/api/v1", "/foo", "/", "/api/v1/foo", "/"),
    ("/api/v1", "/", "/xyz", "/api/v1/a", "/xyz/a"),
    ("/api/v1", "/", "/xyz", "/api/v1", "/xyz"),
    ("/api/v1", "/", "/", "/api/v1", "/"),
];

#[tokio::test]
async fn backends_see_the_path_that_the_rule_says() {
    let backend = Backend::start("a").await;
    let mut hosts: Vec<_> = PATHS
        .iter()
        .enumerate()
        .map(|(index, (api, path, to, ..))| {
            let entry = changed(under(api, prefix(path)), new_prefix(to));
            host(&format!("p{index}.example"), vec![entry])
        })
        .collect();
    let mut renamed = entry();
    renamed.filters = vec![Filter::Rewrite(Rewrite {
        hostname: Some("new.example".into()),
        path: None,
    })];
    hosts.extend([
        host("plain.example", vec![entry()]),
        host("host.example", vec![renamed]),
        host(
            "full.example",
            vec![changed(at(regex("/a.*")), full("/b\\1/c?d"))],
        ),
        host(
            "fullapi.example",
            vec![changed(under("/api", prefix("/a")), full("/b"))],
        ),
        host(
            "strip.example",
            vec![
                under("/api", exact("/")),
                under("/api", exact("/a")),
                under("/api", regex("^/r.*")),
                under("/api", prefix("/p")),
                under("/root", prefix("/")),
            ],
        ),
    ]);
    let gateway = Gateway::serve(&hosts, cluster("a", &[&backend])).await;
    for (index, (api, path, to, request, expected)) in PATHS.iter().enumerate() {
        let answer = gateway.get(&format!("p{index}.example"), request).await;
        assert_eq!(answer.path(), *expected, "{api}{path} to {to}: {request}");
    }
    for (host, path, expected) in [
        ("plain.example", "/a//b?c=%20", "/a//b?c=%20"),
        ("full.example", "/a/x", "/b\\1/c?d"),
        ("fullapi.example", "/api/a/x?q=1", "/b?q=1"),
        ("strip.example", "/api", "/"),
        ("strip.example", "/api/", "/"),
        ("strip.example", "/api/a?q=/api/", "/a?q=/api/"),
        ("strip.example", "/api/r/api/", "/r/api/"),
        ("strip.example", "/api/p/", "/p/"),
        ("strip.example", "/root", "/"),
        ("strip.example", "/root/root/a", "/root/a"),
    ] {
        assert_eq!(
            gateway.get(host, path).await.path(),
            expected,
            "{host} {path}"
        );
    }
    let answer = gateway.get("host.example:81", "/").await;
    assert_eq!(answer.seen()["host"], "new.example");
    assert_eq!(
        gateway.get("plain.example:81", "/").await.seen()["host"],
        "plain.example:81"
    );
    for name in ["x-envoy-original-path", "x-envoy-expected-rq-timeout-ms"] {
        assert!(answer.sent(name).is_empty(), "{answer:?}");
    }
}

fn served(hostname: &str, port: u16, redirect: Redirect) -> VirtualHost {
    VirtualHost {
        listener_port: port,
        route_config: RC.into(),
        ..host(hostname, vec![redirecting(entry(), redirect)])
    }
}

#[tokio::test]
async fn redirects_say_where_to_go() {
    let scheme = |scheme: &str| Redirect {
        scheme: Some(scheme.into()),
        ..found()
    };
    let port = |scheme: Option<&str>, port| Redirect {
        scheme: scheme.map(Into::into),
        port: Some(port),
        ..found()
    };
    let path = |entry, path| {
        redirecting(
            entry,
            Redirect {
                path: Some(path),
                ..found()
            },
        )
    };
    let hosts = [
        served("https.example", 80, scheme("https")),
        served("*.https.example", 80, scheme("https")),
        served("http.example", 8080, scheme("http")),
        served("own.example", 8080, found()),
        served("own80.example", 80, found()),
        served("*.own80.example", 80, found()),
        served("port.example", 80, port(None, 8443)),
        served("port80.example", 8080, port(None, 80)),
        served("port443.example", 8080, port(Some("https"), 443)),
        served("both.example", 80, port(Some("https"), 80)),
        served(
            "name.example",
            80,
            Redirect {
                hostname: Some("other.example".into()),
                status: 301,
                ..found()
            },
        ),
        host(
            "path.example",
            vec![
                path(at(prefix("/full")), full("/new")),
                path(at(prefix("/foo")), new_prefix("/xyz/")),
                path(at(prefix("/cut")), new_prefix("/")),
                path(under("/api", prefix("/full")), full("/new")),
                path(under("/api", prefix("/foo")), new_prefix("/xyz")),
                path(under("/api", prefix("/cut")), new_prefix("/")),
                path(at(prefix("/")), new_prefix("/v2")),
            ],
        ),
    ];
    let gateway = Gateway::serve(&hosts, Vec::new()).await;
    for (host, path, expected) in [
        ("https.example", "/a?b", "https://https.example/a?b"),
        ("https.example:8080", "/", "https://https.example/"),
        ("a.https.example", "/", "https://a.https.example/"),
        ("a.https.example:8080", "/", "https://a.https.example:443/"),
        ("http.example:8080", "/", "http://http.example/"),
        ("own.example", "/", "http://own.example:8080/"),
        ("own80.example:10080", "/", "http://own80.example/"),
        ("a.own80.example", "/", "http://a.own80.example/"),
        ("a.own80.example:10080", "/", "http://a.own80.example:80/"),
        ("port.example:80", "/", "http://port.example:8443/"),
        ("port80.example", "/", "http://port80.example/"),
        ("port443.example", "/", "https://port443.example/"),
        ("both.example", "/", "https://both.example:80/"),
        ("name.example:80", "/a", "http://other.example/a"),
        ("path.example", "/full/a?q=1", "http://path.example/new?q=1"),
        (
            "path.example",
            "/foo/a?q=1",
            "http://path.example/xyz/a?q=1",
        ),
        ("path.example", "/foo", "http://path.example/xyz"),
        ("path.example", "/cut/a", "http://path.example/a"),
        ("path.example", "/cut", "http://path.example/"),
        ("path.example", "/api/full", "http://path.example/api/new"),
        (
            "path.example",
            "/api/foo/a",
            "http://path.example/api/xyz/a",
        ),
        ("path.example", "/api/cut/a", "http://path.example/api/a"),
        ("path.example", "/a", "http://path.example/v2/a"),
    ] {
        let answer = gateway.get(host, path).await;
        assert_eq!(answer.header("location"), Some(expected), "{host} {path}");
        assert_eq!(
            answer.status,
            if host.starts_with("name") { 301 } else { 302 }
        );
    }
}
