//! HTTPS: certificates by SDS, chains by SNI, HTTP/2 by ALPN.

use crate::backend::Backend;
use crate::gateway::{Gateway, free_port};
use crate::values::{answer, cluster, entry, host};
use chiton::synchronizer::{envoy, model};
use chiton_xds::Resource;
use std::process::Command;

fn secret(name: &str, hostname: &str) -> Resource {
    let made = rcgen::generate_simple_self_signed(vec![hostname.to_owned()]).expect("a key pair");
    envoy::tls_secret(&model::TlsSecret {
        name: name.into(),
        certificate: made.cert.pem().into_bytes(),
        private_key: made.signing_key.serialize_pem().into_bytes(),
    })
}

fn served(route_config: &str, hostname: &str) -> Vec<Resource> {
    let mut found = entry();
    found.action = answer(200, route_config);
    vec![
        envoy::route_config(&model::RouteConfig {
            name: route_config.into(),
            effects: model::Effects::new(),
        }),
        envoy::rate_limits(&model::RateLimits {
            name: envoy::rate_limit_name(route_config),
            buckets: std::collections::BTreeMap::default(),
            wide: None,
        }),
        envoy::inert_virtual_host(route_config),
        envoy::virtual_host(&model::VirtualHost {
            route_config: route_config.into(),
            tls: true,
            listener_port: 443,
            ..host(hostname, vec![found])
        }),
    ]
}

/// `curl` prints the answer, the protocol and the certificate's check is off.
fn curl(port: u16, name: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl")
        .args(["-sk", "--max-time", "10", "-w", " %{http_version}"])
        .arg("--resolve")
        .arg(format!("{name}:{port}:127.0.0.1"))
        .args(arguments)
        .arg(format!("https://{name}:{port}/"))
        .output()
        .expect("curl is there");
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_are_chosen_by_name() {
    let backend = Backend::start("a").await;
    let port = free_port();
    let chain = |route_config: &str, name: &str, secrets: &[&str]| model::TlsChain {
        route_config: route_config.into(),
        server_names: vec![name.into()],
        secrets: secrets.iter().map(ToString::to_string).collect(),
    };
    let mut resources = vec![
        envoy::listener(&model::Listener {
            name: "https-443".into(),
            address: "127.0.0.1".parse().expect("an address"),
            port,
            kind: model::ListenerKind::Https(vec![
                chain("https-443_a", "a.example", &["secret_a"]),
                chain("https-443_b", "*.b.example", &["secret_b", "secret_a"]),
            ]),
            access_log: true,
        }),
        secret("secret_a", "a.example"),
        secret("secret_b", "*.b.example"),
    ];
    resources.extend(cluster("a", &[&backend]));
    resources.extend(served("https-443_a", "a.example"));
    resources.extend(served("https-443_b", "*.b.example"));
    let gateway = Gateway::start(port, resources).await;
    assert_eq!(
        curl(port, "a.example", &[]).as_deref(),
        Some("https-443_a 2")
    );
    assert_eq!(
        curl(port, "a.example", &["--http1.1"]).as_deref(),
        Some("https-443_a 1.1")
    );
    assert_eq!(
        curl(port, "x.b.example", &[]).as_deref(),
        Some("https-443_b 2")
    );
    assert_eq!(
        curl(port, "c.example", &[]),
        None,
        "no chain takes the name"
    );
    assert_eq!(curl(port, "a.example", &["--tls-max", "1.1"]), None);
    assert_eq!(
        gateway.log().matches("deprecated").count(),
        0,
        "{}",
        gateway.log()
    );
}
