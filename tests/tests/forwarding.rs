//! Where requests go: weights, mirrors, time limits, upgrades and protocols, with real requests.

use anyhow::ensure;
use chiton_tests::manifests::{backend_ref, prefix, route, rule, service, slice, to};
use chiton_tests::{World, wait};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Backends with weights.
fn weighted(backends: &[(&str, u32)]) -> String {
    let backends: Vec<String> = backends
        .iter()
        .map(|(name, weight)| {
            let reference = backend_ref(name);
            format!("{}, weight: {weight}}}", reference.trim_end_matches('}'))
        })
        .collect();
    format!("backendRefs: [{}]", backends.join(", "))
}

/// Who answered so many requests, and how often; without a backend its status.
async fn shares(
    world: &World,
    path: &str,
    requests: usize,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut shares = BTreeMap::new();
    for _ in 0..requests {
        let answer = world.get(path).send().await?;
        let name = match answer.status.as_u16() {
            200 => answer.backend(),
            status => status.to_string(),
        };
        *shares.entry(name).or_default() += 1;
    }
    Ok(shares)
}

/// The bounds are over four standard deviations away: one run in ten thousand may be outside.
#[tokio::test]
async fn weights_share_requests() -> anyhow::Result<()> {
    let rules = [
        rule(&prefix("/quarter"), &weighted(&[("a", 1), ("b", 3)])),
        rule(&prefix("/zero"), &weighted(&[("a", 1), ("b", 0)])),
        rule(&prefix("/none"), &weighted(&[("a", 0), ("b", 0)])),
        rule(&prefix("/broken"), &weighted(&[("a", 1), ("missing", 1)])),
        rule(&prefix("/unused"), &weighted(&[("a", 1), ("missing", 0)])),
        rule(&prefix("/empty"), "name: empty"),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/zero", "a").await?;

    let quarter = shares(&world, "/quarter", 400).await?;
    let a = quarter.get("a").copied().unwrap_or_default();
    assert!((64..=136).contains(&a), "{quarter:?}");
    assert_eq!(quarter.get("b"), Some(&(400 - a)), "{quarter:?}");

    let broken = shares(&world, "/broken", 200).await?;
    let a = broken.get("a").copied().unwrap_or_default();
    assert!((70..=130).contains(&a), "{broken:?}");
    assert_eq!(broken.get("500"), Some(&(200 - a)), "{broken:?}");

    for (path, who) in [
        ("/zero", "a"),
        ("/unused", "a"),
        ("/none", "500"),
        ("/empty", "500"),
    ] {
        let expected = BTreeMap::from([(who.to_owned(), 20)]);
        assert_eq!(shares(&world, path, 20).await?, expected, "{path}");
    }
    let reason = world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "False")
        .await?;
    assert!(reason.starts_with("BackendNotFound"), "{reason}");
    assert!(reason.contains("default/missing"), "{reason}");
    world.host.stop().await
}

#[tokio::test]
async fn a_mirror_gets_copies_and_its_answers_are_not_heard() -> anyhow::Result<()> {
    let mirror = |name: &str, share: &str| {
        format!(
            "{{type: RequestMirror, requestMirror: {{backendRef: {}{share}}}}}",
            backend_ref(name)
        )
    };
    let with = |path: &str, filters: &[String]| {
        let fields = format!("filters: [{}], {}", filters.join(", "), to("a"));
        rule(&prefix(path), &fields)
    };
    let rules = [
        with("/none", &[mirror("b", ", percent: 0")]),
        with("/all", &[mirror("b", "")]),
        with("/two", &[mirror("b", ""), mirror("c", "")]),
        with(
            "/half",
            &[mirror("c", ", fraction: {numerator: 1, denominator: 2}")],
        ),
        with("/missing", &[mirror("missing", "")]),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/none", "a").await?;
    assert_eq!(world.backend.count("b").await?, 0);

    let copied = async |name: &str, count: u64| {
        wait::until("copies arrive", async || {
            let found = world
                .backend
                .count(name)
                .await
                .map_err(|error| error.to_string())?;
            if found == count {
                Ok(())
            } else {
                Err(format!("{found} at {name}, not {count}"))
            }
        })
        .await
    };
    assert_eq!(world.get("/all").send().await?.backend(), "a");
    copied("b", 1).await?;
    assert_eq!(world.get("/all?status=404").send().await?.status, 404);
    copied("b", 2).await?;
    assert_eq!(world.get("/two").send().await?.backend(), "a");
    copied("b", 3).await?;
    copied("c", 1).await?;

    let half = shares(&world, "/half", 200).await?;
    assert_eq!(half.get("a"), Some(&200));
    // The copies of requests that were answered before this one's are there, but for a few.
    world.get("/two").send().await?;
    copied("b", 4).await?;
    let half = world.backend.count("c").await?;
    assert!((65..=138).contains(&half), "{half}");

    assert_eq!(world.get("/missing").send().await?.backend(), "a");
    let reason = world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "False")
        .await?;
    assert!(reason.starts_with("BackendNotFound"), "{reason}");
    world.host.stop().await
}

#[tokio::test]
async fn time_limits_end_requests_with_504() -> anyhow::Result<()> {
    let limited = |path: &str, limits: &str| {
        rule(
            &prefix(path),
            &format!("timeouts: {{{limits}}}, {}", to("a")),
        )
    };
    let rules = [
        limited("/request", "request: 200ms"),
        limited("/backend", "backendRequest: 200ms"),
        limited("/both", "request: 40s, backendRequest: 200ms"),
        limited("/zero", "request: 0s"),
        limited("/long", "request: 1m"),
    ]
    .concat();
    let world = World::start(&route("r", &rules)).await?;
    world.served_by("/long", "a").await?;
    for path in ["/request", "/backend", "/both"] {
        let answer = world.get(&format!("{path}?delay_ms=60000")).send().await?;
        assert_eq!(answer.status, 504, "{path}");
    }
    for path in ["/zero", "/long"] {
        let answer = world.get(&format!("{path}?delay_ms=400")).send().await?;
        assert_eq!(answer.status, 200, "{path}");
    }
    world.host.stop().await
}

#[tokio::test]
async fn a_websocket_goes_through() -> anyhow::Result<()> {
    let world = World::start(&route("r", &rule(&prefix("/ws"), &to("b")))).await?;
    world.served_by("/ws", "b").await?;
    let mut stream = TcpStream::connect(("127.0.0.1", world.port)).await?;
    let request = "GET /ws HTTP/1.1\r\nhost: x.org\r\nconnection: upgrade\r\nupgrade: \
                   websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: \
                   dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(wait::at_most("the answer's head", stream.read_u8()).await??);
    }
    let head = String::from_utf8(head)?.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: websocket"), "{head}");
    for text in [&b"hello"[..], &[0, 1, 2, 255], &vec![7; 70_000]] {
        let mut back = vec![0; text.len()];
        let (mut reader, mut writer) = stream.split();
        let (written, read) = wait::at_most("the echo", async {
            tokio::join!(writer.write_all(text), reader.read_exact(&mut back))
        })
        .await?;
        written?;
        ensure!(read? == text.len() && back == text, "not what was sent");
    }
    drop(stream);
    world.host.stop().await
}

#[tokio::test]
async fn a_backend_is_spoken_to_as_it_wants() -> anyhow::Result<()> {
    let port = |name: &str, number: u16, protocol: &str| {
        format!("{{name: {name}, port: {number}{protocol}}}")
    };
    let ports = [
        port("plain", 80, ""),
        port("h2c", 81, ", appProtocol: kubernetes.io/h2c"),
        port("ws", 82, ", appProtocol: kubernetes.io/ws"),
        port("odd", 83, ", appProtocol: example.com/odd"),
    ]
    .join(", ");
    let slices = ["plain", "h2c", "ws", "odd"].map(|name| format!("{{name: {name}, port: $A}}"));
    let backend = "apiVersion: chiton.dev/v1alpha1
kind: Backend
metadata: {name: h2c}
spec: {protocol: h2c, endpoints: [{host: 127.0.0.1, port: $A}]}
---
";
    let at = |path: &str, port: u16| {
        rule(
            &prefix(path),
            &format!("backendRefs: [{{name: s, port: {port}}}]"),
        )
    };
    let rules = [
        at("/plain", 80),
        at("/h2c", 81),
        at("/ws", 82),
        at("/odd", 83),
        rule(&prefix("/backend"), &to("h2c")),
    ]
    .concat();
    let manifests = [
        service("s", &ports),
        slice("s-1", "s", true, &slices.join(", ")),
        backend.to_owned(),
        route("r", &rules),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for (path, protocol) in [
        ("/plain", "HTTP/1.1"),
        ("/h2c", "HTTP/2.0"),
        ("/ws", "HTTP/1.1"),
        ("/backend", "HTTP/2.0"),
    ] {
        let answer = world.served_by(path, "a").await?;
        assert_eq!(answer.json()["protocol"], protocol, "{path}");
    }
    assert_eq!(world.get("/odd").send().await?.status, 500);
    let reason = world
        .host
        .condition("HTTPRoute", "r", "ResolvedRefs", "False")
        .await?;
    assert!(reason.starts_with("UnsupportedProtocol"), "{reason}");
    world.host.stop().await
}

#[tokio::test]
async fn a_client_may_speak_http_2_in_the_clear() -> anyhow::Result<()> {
    let world = World::start(&route("r", &rule(&prefix("/"), &to("a")))).await?;
    world.served_by("/", "a").await?;
    let stream = TcpStream::connect(("127.0.0.1", world.port)).await?;
    let io = TokioIo::new(stream);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    // A body of many frames, larger than what the proxy buffers.
    let body = Full::new(Bytes::from(vec![b'x'; 1 << 20]));
    let request = Request::post("http://x.org/up").body(body)?;
    let answer = wait::at_most("the answer", sender.send_request(request)).await??;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.version(), hyper::Version::HTTP_2);
    let body = answer.into_body().collect().await?.to_bytes();
    let seen: serde_json::Value = serde_json::from_slice(&body)?;
    assert_eq!(seen["method"], "POST");
    assert_eq!(seen["host"], "x.org");
    assert_eq!(seen["protocol"], "HTTP/1.1");
    world.host.stop().await
}
