//! Redirects and rewrites, with real requests.

use chiton_tests::World;
use chiton_tests::http::{self, Answer};
use chiton_tests::manifests::{prefix, route, route_with, rule, to};

/// A rule that redirects.
fn redirect(path: &str, fields: &str) -> String {
    let filter = format!("{{type: RequestRedirect, requestRedirect: {{{fields}}}}}");
    rule(&prefix(path), &format!("filters: [{filter}]"))
}

/// A rule that rewrites.
fn rewrite(path: &str, fields: &str) -> String {
    let filter = format!("{{type: URLRewrite, urlRewrite: {{{fields}}}}}");
    rule(&prefix(path), &format!("filters: [{filter}], {}", to("a")))
}

fn full(path: &str) -> String {
    format!("path: {{type: ReplaceFullPath, replaceFullPath: {path}}}")
}

fn replaced(path: &str) -> String {
    format!("path: {{type: ReplacePrefixMatch, replacePrefixMatch: {path}}}")
}

async fn ask(world: &World, host: &str, path: &str) -> anyhow::Result<Answer> {
    http::get(world.port, path).host(host).send().await
}

#[tokio::test]
async fn redirects_name_scheme_host_and_port() -> anyhow::Result<()> {
    let rules = [
        redirect("/https", "scheme: https"),
        redirect("/http", "scheme: http"),
        redirect("/host", "hostname: other.org"),
        redirect("/port", "port: 8443"),
        redirect("/port-80", "port: 80"),
        redirect("/https-port", "scheme: https, port: 8443"),
        redirect("/https-443", "scheme: https, port: 443"),
        redirect("/https-host", "scheme: https, hostname: other.org"),
        redirect(
            "/everything",
            "scheme: https, hostname: other.org, port: 444, path: {type: ReplaceFullPath, \
             replaceFullPath: /new}, statusCode: 308",
        ),
        redirect("/nothing", "statusCode: 301"),
    ]
    .concat();
    let routes = [
        route("any", &rules),
        route_with(
            "named",
            "parentRefs: [{name: gateway}]\n  hostnames: [named.org]",
            &rules,
        ),
    ]
    .concat();
    let world = World::start(&routes).await?;
    for name in ["any", "named"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    let listener = world.port;
    for host in ["example.org", "named.org"] {
        for asked in [host.to_owned(), format!("{host}:{listener}")] {
            // Envoy keeps the port that a request names, unless it is told another port or a host:
            // where any host is served, the scheme's own port is written then, which is the same.
            let written = host == "example.org" && asked != host;
            let (http, https) = if written { (":80", ":443") } else { ("", "") };
            for (path, status, location) in [
                ("/https", 302, format!("https://{host}{https}/https")),
                (
                    "/https/x?y=1",
                    302,
                    format!("https://{host}{https}/https/x?y=1"),
                ),
                ("/http", 302, format!("http://{host}{http}/http")),
                ("/host", 302, format!("http://other.org:{listener}/host")),
                ("/port", 302, format!("http://{host}:8443/port")),
                ("/port-80", 302, format!("http://{host}{http}/port-80")),
                (
                    "/https-port",
                    302,
                    format!("https://{host}:8443/https-port"),
                ),
                (
                    "/https-443",
                    302,
                    format!("https://{host}{https}/https-443"),
                ),
                (
                    "/https-host",
                    302,
                    "https://other.org/https-host".to_owned(),
                ),
                ("/everything", 308, "https://other.org:444/new".to_owned()),
                ("/nothing", 301, format!("http://{host}:{listener}/nothing")),
            ] {
                let answer = ask(&world, &asked, path).await?;
                let found = (answer.status.as_u16(), answer.header("location"));
                assert_eq!(found, (status, &*location), "{asked}{path}");
            }
        }
    }
    world.host.stop().await
}

#[tokio::test]
async fn redirects_change_paths() -> anyhow::Result<()> {
    let to = |change: String| format!("hostname: x.org, port: 80, {change}");
    let rules = [
        redirect("/full", &to(full("/new"))),
        redirect("/old", &to(replaced("/new"))),
        redirect("/slash/", &to(replaced("/new/"))),
        redirect("/gone", &to(replaced("/"))),
        redirect("/empty", &to(replaced("''"))),
        redirect("/s303", "statusCode: 303"),
        redirect("/s307", "statusCode: 307"),
    ]
    .concat();
    let root = redirect("/", &to(replaced("/foo")));
    let routes = [
        route("r", &rules),
        route_with(
            "root",
            "parentRefs: [{name: gateway}]\n  hostnames: [root.org]",
            &root,
        ),
    ]
    .concat();
    let world = World::start(&routes).await?;
    for name in ["r", "root"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    for (host, path, location) in [
        ("a.org", "/full", "http://x.org/new"),
        ("a.org", "/full/deep?x=1", "http://x.org/new?x=1"),
        ("a.org", "/old", "http://x.org/new"),
        ("a.org", "/old/", "http://x.org/new/"),
        ("a.org", "/old/x/y?z=1", "http://x.org/new/x/y?z=1"),
        ("a.org", "/slash", "http://x.org/new"),
        ("a.org", "/slash/x", "http://x.org/new/x"),
        ("a.org", "/gone", "http://x.org/"),
        ("a.org", "/gone/", "http://x.org/"),
        ("a.org", "/gone/x", "http://x.org/x"),
        ("a.org", "/gone?x=1", "http://x.org/?x=1"),
        ("a.org", "/empty/x", "http://x.org/x"),
        ("root.org", "/", "http://x.org/foo/"),
        ("root.org", "/test", "http://x.org/foo/test"),
    ] {
        let answer = ask(&world, host, path).await?;
        assert_eq!(answer.status, 302);
        assert_eq!(answer.header("location"), location, "{path}");
    }
    for (path, status) in [("/s303", 303), ("/s307", 307)] {
        assert_eq!(ask(&world, "a.org", path).await?.status, status);
    }
    world.host.stop().await
}

#[tokio::test]
async fn rewrites_change_host_and_path() -> anyhow::Result<()> {
    let rules = [
        rewrite("/host", "hostname: inner.example"),
        rewrite("/full", &full("/whole")),
        rewrite("/full/root", &full("/")),
        rewrite("/old", &replaced("/new")),
        rewrite("/old/longer", &replaced("/short")),
        rewrite("/slash/", &replaced("/new/")),
        rewrite("/foo", &replaced("/")),
        rewrite("/empty", &replaced("''")),
        rewrite(
            "/both",
            &format!("hostname: inner.example, {}", replaced("/b")),
        ),
    ]
    .concat();
    let root = rewrite("/", &replaced("/foo"));
    let exact = rule(
        "{path: {type: Exact, value: /exact}}",
        &format!(
            "filters: [{{type: URLRewrite, urlRewrite: {{{}}}}}], {}",
            full("/other"),
            to("a")
        ),
    );
    let routes = [
        route("r", &(rules + &exact)),
        route_with(
            "root",
            "parentRefs: [{name: gateway}]\n  hostnames: [root.org]",
            &root,
        ),
    ]
    .concat();
    let world = World::start(&routes).await?;
    for name in ["r", "root"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    for (host, path, seen_host, seen_path) in [
        ("a.org", "/host/x", "inner.example", "/host/x"),
        ("a.org", "/full", "a.org", "/whole"),
        ("a.org", "/full/x?y=1", "a.org", "/whole?y=1"),
        ("a.org", "/full/root/x", "a.org", "/"),
        ("a.org", "/old", "a.org", "/new"),
        ("a.org", "/old/", "a.org", "/new/"),
        ("a.org", "/old/x?y=/old", "a.org", "/new/x?y=/old"),
        ("a.org", "/old/longer/x", "a.org", "/short/x"),
        ("a.org", "/slash/x", "a.org", "/new/x"),
        ("a.org", "/slash", "a.org", "/new"),
        ("a.org", "/foo", "a.org", "/"),
        ("a.org", "/foo/", "a.org", "/"),
        ("a.org", "/foo/x", "a.org", "/x"),
        ("a.org", "/foo?x=1", "a.org", "/?x=1"),
        ("a.org", "/empty/x", "a.org", "/x"),
        ("a.org", "/both/x", "inner.example", "/b/x"),
        ("a.org", "/exact", "a.org", "/other"),
        ("root.org", "/", "root.org", "/foo/"),
        ("root.org", "/test", "root.org", "/foo/test"),
        ("root.org", "/a/b?c=1", "root.org", "/foo/a/b?c=1"),
    ] {
        let answer = ask(&world, host, path).await?;
        assert_eq!(answer.status, 200, "{host}{path}");
        let found = (answer.json()["host"].clone(), answer.seen_path());
        assert_eq!(
            found,
            (seen_host.into(), seen_path.to_owned()),
            "{host}{path}"
        );
    }
    world.host.stop().await
}
