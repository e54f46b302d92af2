//! What is matched.

use crate::backend::Backend;
use crate::gateway::Gateway;
use crate::values::{answer, at, cluster, entry, exact, host, prefix, regex, under};
use chiton::synchronizer::model::RouteEntry;
use chiton_ir::route::{StringMatch, ValueMatch};

/// Each entry answers with its own name.
fn named(name: &str, mut found: RouteEntry) -> RouteEntry {
    found.action = answer(200, name);
    found
}

fn value(name: &str, value: &str) -> ValueMatch {
    ValueMatch {
        name: name.into(),
        value: StringMatch::Exact(value.into()),
    }
}

fn expression(name: &str, value: &str) -> ValueMatch {
    ValueMatch {
        name: name.into(),
        value: StringMatch::Regex(value.into()),
    }
}

fn with(change: impl FnOnce(&mut RouteEntry)) -> RouteEntry {
    let mut found = entry();
    change(&mut found);
    found
}

#[tokio::test]
async fn requests_find_their_routes() {
    let backend = Backend::start("a").await;
    let hosts = [
        host(
            "path.example",
            vec![
                named("exact", at(exact("/exact"))),
                named("regex", at(regex("/v[0-9]+/.*|/x"))),
                named("slash", at(prefix("/slash/"))),
                named("prefix", at(prefix("/foo"))),
                named("root", at(exact("/"))),
            ],
        ),
        host(
            "api.example",
            vec![
                named("exact root", under("/api/v1.0", exact("/"))),
                named("exact", under("/api/v1.0", exact("/a"))),
                named("regex", under("/api/v1.0", regex("^/r[0-9]+$|^/q"))),
                named("prefix", under("/api/v1.0", prefix("/p"))),
                named("root", under("/all", prefix("/"))),
            ],
        ),
        host(
            "value.example",
            vec![
                named(
                    "header",
                    with(|e| e.matches.headers = vec![value("X-A", "1")]),
                ),
                named(
                    "regex",
                    with(|e| e.matches.headers = vec![expression("x-a", "[0-9]+")]),
                ),
                named("query", with(|e| e.matches.query = vec![value("q", "1")])),
                named(
                    "query regex",
                    with(|e| e.matches.query = vec![expression("q", "a.*")]),
                ),
                named("method", with(|e| e.matches.method = Some("DELETE".into()))),
                named(
                    "sandbox",
                    with(|e| e.environment = Some(("X-Env".into(), "sandbox".into(), true))),
                ),
                named(
                    "production",
                    with(|e| e.environment = Some(("X-Env".into(), "sandbox".into(), false))),
                ),
            ],
        ),
        host("*.wild.example", vec![named("wildcard", entry())]),
        host("one.wild.example", vec![named("precise", entry())]),
    ];
    let gateway = Gateway::serve(&hosts, cluster("a", &[&backend])).await;

    for (host, path, expected) in [
        ("path.example", "/exact", "exact"),
        ("path.example", "/exact/", ""),
        ("path.example", "/v12/a", "regex"),
        ("path.example", "/x", "regex"),
        ("path.example", "/xy", ""),
        ("path.example", "/slash", "slash"),
        ("path.example", "/slash/a", "slash"),
        ("path.example", "/foo", "prefix"),
        ("path.example", "/foo/", "prefix"),
        ("path.example", "/foo/bar?q", "prefix"),
        ("path.example", "/foobar", ""),
        ("path.example", "/", "root"),
        ("path.example", "/a/../foo", "prefix"),
        ("PATH.example:8080", "/foo", "prefix"),
        ("path.example.", "/foo", "prefix"),
        ("api.example", "/api/v1.0", "exact root"),
        ("api.example", "/api/v1.0/", "exact root"),
        ("api.example", "/api/v1.0/a", "exact"),
        ("api.example", "/api/v1.0/a/", ""),
        ("api.example", "/api/v1.0/r12", "regex"),
        ("api.example", "/api/v1.0/q", "regex"),
        ("api.example", "/api/v1x0/q", ""),
        ("api.example", "/api/v1.0/p/x", "prefix"),
        ("api.example", "/all", "root"),
        ("api.example", "/all/x", "root"),
        ("api.example", "/allx", ""),
        ("value.example", "/?q=1", "query"),
        ("value.example", "/?q=abc&r", "query regex"),
        ("value.example", "/", "production"),
        ("two.wild.example", "/", "wildcard"),
        ("a.two.wild.example", "/", "wildcard"),
        ("one.wild.example", "/", "precise"),
        ("wild.example", "/", ""),
        ("unknown.example", "/", ""),
        ("chiton.invalid", "/", ""),
    ] {
        let answer = gateway.get(host, path).await;
        assert_eq!(answer.body, expected, "{host} {path}: {answer:?}");
        assert_eq!(answer.status, if expected.is_empty() { 404 } else { 200 });
    }
    for (headers, expected) in [
        (&[("x-a", "1")][..], "header"),
        (&[("x-a", "12")], "regex"),
        (&[("x-a", "12b")], "production"),
        (&[(":method", "DELETE")], "method"),
        (&[("x-env", "sandbox")], "sandbox"),
        (&[("x-env", "other")], "production"),
    ] {
        let answer = gateway.send("value.example", "/", headers).await;
        assert_eq!(answer.body, expected, "{headers:?}");
    }
    // A slash that is escaped is said aloud before anything is decided about the path.
    let answer = gateway.get("path.example", "/foo%2Fbar").await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (307, Some("/foo/bar"))
    );
    assert_eq!(
        gateway.log().matches("deprecated").count(),
        0,
        "{}",
        gateway.log()
    );
}

#[tokio::test]
async fn envoy_takes_the_expressions_that_are_accepted() {
    let expressions = [
        "/users/[0-9]+",
        "/(a|b|)/c?.*",
        r"/v\d+(\.\d+)*/\w+\b",
        "(?i)/abc(?-i)d",
        "(?ims:abc)d",
        "(?U)/a+",
        "(?P<id>[a-z_]+)",
        "[[:alpha:]-]+",
        r"[^\w/]+",
        r"\x41\x{42}[\x43-\x44]",
        "a{3}b{2,}c{1,5}?",
        "^/a$",
        "^*/a",
        r"\_\-\/\.\ \~\&\#",
        "[]a]",
        "[a-]",
        "(a{10}){100}",
        "[a-z]{400}",
        "|/a",
        r"(?i)[a-z]{300}\S{100}",
    ];
    for expression in expressions {
        assert_eq!(
            chiton_ir::check::regex::check(expression),
            Ok(()),
            "{expression}"
        );
    }
    // An API whose prefix has every character that a path may have.
    let all = "/api-/._~!$&'()*+,;=:@%20";
    let mut routes = vec![named("all", under(all, exact("/")))];
    routes.extend(expressions.iter().map(|e| named(e, at(regex(e)))));
    routes.extend(expressions.iter().map(|e| named(e, under(all, regex(e)))));
    let gateway = Gateway::serve(&[host("regex.example", routes)], Vec::new()).await;
    assert_eq!(gateway.get("regex.example", all).await.body, "all");
    let path = format!("{all}/users/1");
    assert_eq!(
        gateway.get("regex.example", &path).await.body,
        "/users/[0-9]+"
    );
}
