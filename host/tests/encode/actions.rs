//! What is done: backends, shares, header filters, limits, fixed answers.

use crate::backend::Backend;
use crate::gateway::Gateway;
use crate::values::{answer, at, cluster, entry, header, host, prefix, set, to, weighted};
use chiton::synchronizer::{envoy, model};
use chiton_ir::route::{Filter, HeaderChange, Timeouts};
use std::collections::BTreeMap;
use std::time::Duration;

fn with(change: impl FnOnce(&mut model::RouteEntry)) -> model::RouteEntry {
    let mut found = entry();
    change(&mut found);
    found
}

fn forward(clusters: Vec<model::WeightedCluster>, broken: u64) -> model::RouteEntry {
    with(|e| e.action = model::Action::Forward { clusters, broken })
}

fn fixed(name: &str, endpoints: model::ClusterEndpoints, h2c: bool) -> chiton_xds::Resource {
    envoy::cluster(&model::Cluster {
        name: name.into(),
        endpoints,
        h2c,
    })
}

#[tokio::test]
async fn requests_reach_their_backends() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let address = (a.address.ip(), a.address.port());
    let mut others = cluster("a", &[&a]);
    others.extend(cluster("b", &[&b]));
    others.extend(cluster("empty", &[]));
    others.push(fixed(
        "fixed",
        model::ClusterEndpoints::Static(vec![address]),
        true,
    ));
    others.push(fixed(
        "none",
        model::ClusterEndpoints::Static(Vec::new()),
        false,
    ));
    let names = vec![("localhost".to_owned(), address.1)];
    others.push(fixed("named", model::ClusterEndpoints::Dns(names), false));
    let mirrored = |fraction| with(|e| e.mirrors = vec![("b".into(), fraction)]);
    let hosts = [
        host("empty.example", vec![with(|e| e.action = to("empty"))]),
        host("none.example", vec![with(|e| e.action = to("none"))]),
        host("h2c.example", vec![with(|e| e.action = to("fixed"))]),
        host("dns.example", vec![with(|e| e.action = to("named"))]),
        host("broken.example", vec![forward(Vec::new(), 1)]),
        host(
            "share.example",
            vec![forward(vec![weighted("a", 1), weighted("b", 2)], 1)],
        ),
        host("mirror.example", vec![mirrored(None)]),
        host("nomirror.example", vec![mirrored(Some((0, 7)))]),
        host(
            "body.example",
            vec![with(|e| e.action = answer(418, "100% tea"))],
        ),
        host("plain.example", vec![entry()]),
    ];
    let gateway = Gateway::serve(&hosts, others).await;

    assert_eq!(gateway.get("empty.example", "/").await.status, 503);
    assert_eq!(gateway.get("none.example", "/").await.status, 503);
    assert_eq!(gateway.get("broken.example", "/").await.status, 500);
    assert_eq!(
        gateway.get("h2c.example", "/").await.seen()["version"],
        "HTTP/2.0"
    );
    assert_eq!(gateway.get("dns.example", "/").await.seen()["backend"], "a");
    let tea = gateway.get("body.example", "/").await;
    assert_eq!((tea.status, tea.body.as_str()), (418, "100% tea"));

    let mut shares = BTreeMap::new();
    for _ in 0..400 {
        let answer = gateway.get("share.example", "/").await;
        let name = if answer.status == 200 {
            answer.seen()["backend"].to_string()
        } else {
            answer.status.to_string()
        };
        *shares.entry(name).or_insert(0) += 1;
    }
    // 100, 200 and 100 are expected; 50 is more than five standard deviations away.
    assert_eq!(shares.len(), 3, "{shares:?}");
    assert!((50..150).contains(&shares["500"]), "{shares:?}");
    assert!((50..150).contains(&shares["\"a\""]), "{shares:?}");

    let before = b.seen().len();
    gateway.get("nomirror.example", "/no").await;
    gateway.get("mirror.example", "/yes").await;
    while b.seen().len() == before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let copies = b.seen().split_off(before);
    assert_eq!(copies.len(), 1);
    assert_eq!(copies[0]["path"], "/yes");
    assert_eq!(copies[0]["host"], "mirror.example");

    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    assert_eq!(
        gateway.send("plain.example", "/", &upgrade).await.status,
        101
    );
    let plain = gateway
        .send("plain.example", "/", &[("x-envoy-retry-on", "5xx")])
        .await;
    assert_eq!(plain.sent("x-forwarded-for").len(), 1);
    assert!(plain.sent("x-envoy-retry-on").is_empty());
    assert_eq!(plain.header("server"), None);
    assert_eq!(
        gateway.log().matches("deprecated").count(),
        0,
        "{}",
        gateway.log()
    );
}

#[tokio::test]
async fn header_filters_change_headers() {
    let a = Backend::start("a").await;
    let change = HeaderChange {
        set: vec![header("X-Set", "50% %REQ(x)% ü"), header("x-both", "rule")],
        add: vec![header("x-add", "new")],
        remove: vec!["X-Gone".into()],
    };
    let response = HeaderChange {
        set: vec![header("x-from", "rule")],
        add: vec![header("x-more", "1"), header("x-more", "2")],
        remove: vec!["content-length".into()],
    };
    let mut backend = weighted("a", 1);
    backend.filters = vec![
        Filter::RequestHeaders(set("x-both", "backend")),
        Filter::ResponseHeaders(set("x-backend", "yes")),
    ];
    let mut changed = forward(vec![backend], 0);
    changed.filters = vec![
        Filter::RequestHeaders(change),
        Filter::ResponseHeaders(response.clone()),
    ];
    let mut fixed = at(prefix("/fixed"));
    fixed.action = answer(200, "");
    fixed.filters = vec![Filter::ResponseHeaders(response)];
    let hosts = [host("headers.example", vec![fixed, changed])];
    let gateway = Gateway::serve(&hosts, cluster("a", &[&a])).await;
    let sent = [("x-set", "old"), ("x-add", "old"), ("x-gone", "x")];
    let answer = gateway.send("headers.example", "/", &sent).await;
    assert_eq!(answer.sent("x-set"), ["50% %REQ(x)% ü"]);
    assert_eq!(answer.sent("x-add"), ["old", "new"]);
    assert_eq!(answer.sent("x-both"), ["backend"]);
    assert!(answer.sent("x-gone").is_empty());
    assert_eq!(answer.header("x-from"), Some("rule"));
    assert_eq!(answer.header("x-backend"), Some("yes"));
    assert_eq!(answer.headers.get_all("x-more").iter().count(), 2);
    let answer = gateway.get("headers.example", "/fixed").await;
    assert_eq!(answer.header("x-from"), Some("rule"));
}

#[tokio::test]
async fn limits_of_time_hold() {
    let a = Backend::start("a").await;
    let limited = |request_ms, backend_request_ms| {
        with(|e| {
            e.timeouts = Timeouts {
                request_ms,
                backend_request_ms,
            };
        })
    };
    let hosts = [
        host("request.example", vec![limited(Some(100), None)]),
        host("backend.example", vec![limited(None, Some(100))]),
        host("both.example", vec![limited(Some(5_000), Some(100))]),
        host("zero.example", vec![limited(Some(0), Some(0))]),
        host("none.example", vec![limited(None, None)]),
    ];
    let gateway = Gateway::serve(&hosts, cluster("a", &[&a])).await;
    for name in ["request.example", "backend.example", "both.example"] {
        let answer = gateway.get(name, "/?delay_ms=30000").await;
        assert_eq!(answer.status, 504, "{name}");
    }
    assert_eq!(a.seen().len(), 3, "nothing is tried twice");
    for name in ["zero.example", "none.example"] {
        assert_eq!(
            gateway.get(name, "/?delay_ms=300").await.status,
            200,
            "{name}"
        );
        // A client cannot bring a limit of its own.
        let header = [("x-envoy-upstream-rq-timeout-ms", "10")];
        let answer = gateway.send(name, "/?delay_ms=300", &header).await;
        assert_eq!(answer.status, 200, "{name}");
    }
}
