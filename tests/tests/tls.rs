//! HTTPS listeners and their certificates, with real connections.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chiton_tests::manifests::{prefix, route_with, rule, to};
use chiton_tests::{Host, World, paths, wait};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A certificate that signs itself, and its key, in PEM.
struct Pair {
    certificate: rcgen::Certificate,
    key: String,
}

impl Pair {
    fn new(hostname: &str) -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed([hostname.to_owned()])?;
        Ok(Self {
            certificate: made.cert,
            key: made.signing_key.serialize_pem(),
        })
    }

    /// The Secret, with this key.
    fn secret_with(&self, name: &str, key: &str) -> String {
        format!(
            "apiVersion: v1
kind: Secret
metadata: {{name: {name}}}
type: kubernetes.io/tls
stringData:
  tls.crt: |
    {}
  tls.key: |
    {}
---
",
            indented(&self.certificate.pem()),
            indented(key)
        )
    }

    fn secret(&self, name: &str) -> String {
        self.secret_with(name, &self.key)
    }

    /// A connection to a host on which only this certificate is trusted.
    async fn connect(
        &self,
        port: u16,
        host: &str,
        alpn: &[&str],
    ) -> anyhow::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let connecting =
            TlsConnector::from(Arc::new(config)).connect(host.to_owned().try_into()?, stream);
        Ok(wait::at_most("the handshake", connecting).await??)
    }

    /// Waits until a host is served with this certificate, and keeps the connection.
    async fn served(&self, port: u16, host: &str) -> anyhow::Result<Kept> {
        wait::until(&format!("{host} has its certificate"), async || {
            let stream = self
                .connect(port, host, &[])
                .await
                .map_err(|error| format!("{error:#}"))?;
            let kept = Kept::new(stream, host).await;
            kept.map_err(|error| format!("{error:#}"))
        })
        .await
    }
}

/// Lines of a block in a Secret.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

/// A connection that is kept.
struct Kept {
    sender: http1::SendRequest<Empty<Bytes>>,
    host: String,
}

impl Kept {
    async fn new(stream: TlsStream<TcpStream>, host: &str) -> anyhow::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let host = host.to_owned();
        Ok(Self { sender, host })
    }

    /// Status and the backend that answered.
    async fn get(&mut self) -> anyhow::Result<(StatusCode, String)> {
        let request = Request::get("/").header("host", &self.host);
        let request = request.body(Empty::new())?;
        let answer = wait::at_most("the answer", self.sender.send_request(request)).await??;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = body["backend"].as_str().unwrap_or_default().to_owned();
        Ok((status, name))
    }
}

/// A Gateway with an HTTPS listener for each hostname, `*` for any, whose Secret has the listener's
/// name; and a route to a Backend at each.
fn gateway(port: u16, listeners: &[(&str, &str, &str)]) -> String {
    let sections: Vec<String> = listeners
        .iter()
        .map(|(name, hostname, _)| {
            let hostname = match *hostname {
                "*" => String::new(),
                hostname => format!("hostname: '{hostname}', "),
            };
            format!(
                "{{name: {name}, protocol: HTTPS, port: {port}, {hostname}tls: \
                 {{certificateRefs: [{{name: {name}}}]}}}}"
            )
        })
        .collect();
    let routes: String = listeners
        .iter()
        .map(|(name, _, backend)| {
            route_with(
                name,
                &format!("parentRefs: [{{name: tls, sectionName: {name}}}]"),
                &rule(&prefix("/"), &to(backend)),
            )
        })
        .collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: tls}}
spec:
  gatewayClassName: chiton
  listeners: [{}]
---
{routes}",
        sections.join(", ")
    )
}

/// Waits until a listener of the Gateway `tls` has a condition, and returns its reason and message.
async fn listener_is(
    host: &Host,
    name: &str,
    r#type: &str,
    status: &str,
) -> anyhow::Result<String> {
    wait::until(&format!("{name} is {type}={status}"), async || {
        let gateway = host
            .object("Gateway", "tls")
            .await
            .map_err(|error| format!("{error:#}"))?;
        let mut conditions = gateway["conditions"].as_array().into_iter().flatten();
        conditions
            .find(|it| {
                it["scope"]["section"] == name && it["type"] == r#type && it["status"] == status
            })
            .map(|it| format!("{}: {}", it["reason"], it["message"]))
            .ok_or_else(|| format!("{gateway:#}"))
    })
    .await
}

/// How often listeners were sent to the proxy.
async fn listeners_sent(host: &Host) -> anyhow::Result<String> {
    let text = host.admin("/metrics").await?.body;
    let text = String::from_utf8(text.to_vec())?;
    let mut lines = text.lines();
    lines
        .find(|line| line.starts_with("chiton_xds_resources_sent_total{type=\"Listener\"}"))
        .map(ToOwned::to_owned)
        .with_context(|| text.clone())
}

#[tokio::test]
async fn tls_is_terminated_with_http_1_and_2() -> anyhow::Result<()> {
    let pair = Pair::new("a.example")?;
    let [port] = paths::free_ports()?;
    let manifests = gateway(port, &[("a", "a.example", "a")]) + &pair.secret("a");
    let world = World::start(&manifests).await?;
    let mut kept = pair.served(port, "a.example").await?;
    world.host.programmed("HTTPRoute", "a").await?;
    assert_eq!(kept.get().await?, (StatusCode::OK, "a".to_owned()));

    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], "h2"),
        (&["http/1.1", "h2"], "h2"),
        (&["http/1.1"], "http/1.1"),
    ] {
        let stream = pair.connect(port, "a.example", offered).await?;
        let found = stream.get_ref().1.alpn_protocol();
        assert_eq!(found, Some(chosen.as_bytes()), "{offered:?}");
    }
    let stream = pair.connect(port, "a.example", &["h2"]).await?;
    let io = TokioIo::new(stream);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    for (host, status) in [("a.example", 200), ("b.example", 404)] {
        let request = Request::get(format!("https://{host}/")).body(Empty::<Bytes>::new())?;
        let answer = wait::at_most("the answer", sender.send_request(request)).await??;
        assert_eq!(answer.status(), status, "{host}");
    }
    // A connection for a host that no listener has is not taken.
    assert!(pair.connect(port, "other.example", &[]).await.is_err());
    world.host.stop().await
}

#[tokio::test]
async fn the_hostname_selects_the_certificate() -> anyhow::Result<()> {
    let a = Pair::new("a.example")?;
    let b = Pair::new("b.example")?;
    let wild = Pair::new("*.wild.example")?;
    let any = Pair::new("any.example")?;
    let [port] = paths::free_ports()?;
    let manifests = [
        gateway(
            port,
            &[
                ("a", "a.example", "a"),
                ("b", "b.example", "b"),
                ("wild", "*.wild.example", "c"),
                ("any", "*", "b"),
            ],
        ),
        a.secret("a"),
        b.secret("b"),
        wild.secret("wild"),
        any.secret("any"),
    ]
    .concat();
    let world = World::start(&manifests).await?;
    for name in ["a", "b", "wild", "any"] {
        world.host.programmed("HTTPRoute", name).await?;
    }
    for (pair, host, backend) in [
        (&a, "a.example", "a"),
        (&b, "b.example", "b"),
        (&wild, "x.wild.example", "c"),
        (&any, "any.example", "b"),
    ] {
        let found = pair.served(port, host).await?.get().await?;
        assert_eq!(found, (StatusCode::OK, backend.to_owned()), "{host}");
    }
    // A request for another listener's host on this connection is told to open one for it.
    let mut wrong = any.served(port, "any.example").await?;
    "a.example".clone_into(&mut wrong.host);
    assert_eq!(wrong.get().await?.0, StatusCode::MISDIRECTED_REQUEST);
    world.host.stop().await
}

#[tokio::test]
async fn a_new_certificate_is_served_and_no_connection_ends() -> anyhow::Result<()> {
    let old = Pair::new("a.example")?;
    let other = Pair::new("b.example")?;
    let [port] = paths::free_ports()?;
    let gateway = gateway(port, &[("a", "a.example", "a"), ("b", "b.example", "b")]);
    let world = World::start(&(gateway + &other.secret("b"))).await?;
    world.write("secret.yaml", &old.secret("a"))?;
    let mut kept = old.served(port, "a.example").await?;
    world.host.programmed("HTTPRoute", "a").await?;
    assert_eq!(kept.get().await?.0, StatusCode::OK);
    let sent = listeners_sent(&world.host).await?;

    let new = Pair::new("a.example")?;
    world.write("secret.yaml", &new.secret("a"))?;
    let mut fresh = new.served(port, "a.example").await?;
    assert_eq!(fresh.get().await?, (StatusCode::OK, "a".to_owned()));
    assert!(old.connect(port, "a.example", &[]).await.is_err());
    // The listener was not touched: who is connected stays so.
    assert_eq!(kept.get().await?, (StatusCode::OK, "a".to_owned()));
    assert_eq!(listeners_sent(&world.host).await?, sent);
    let mut neighbour = other.served(port, "b.example").await?;
    assert_eq!(neighbour.get().await?, (StatusCode::OK, "b".to_owned()));
    world.host.stop().await
}

#[tokio::test]
async fn a_broken_secret_breaks_its_listener_alone() -> anyhow::Result<()> {
    let good = Pair::new("good.example")?;
    let bad = Pair::new("bad.example")?;
    let [port] = paths::free_ports()?;
    let gateway = gateway(
        port,
        &[("good", "good.example", "a"), ("bad", "bad.example", "b")],
    ) + &good.secret("good");
    let world = World::start(&gateway).await?;
    world.host.programmed("HTTPRoute", "good").await?;
    let stranger = Pair::new("bad.example")?;
    let no_key = bad
        .secret("bad")
        .split("  tls.key")
        .next()
        .map(ToOwned::to_owned);
    let no_key = no_key.context("a Secret")? + "---\n";
    let mut kept = good.served(port, "good.example").await?;
    for (secret, why) in [
        (String::new(), "does not exist"),
        (no_key, "no entry tls.key"),
        (bad.secret_with("bad", &stranger.key), "does not belong"),
        (bad.secret_with("bad", "nothing"), "no private key"),
    ] {
        world.write("secret.yaml", &secret)?;
        let said = wait::until("the listener says why", async || {
            let said = listener_is(&world.host, "bad", "ResolvedRefs", "False").await;
            let said = said.map_err(|error| format!("{error:#}"))?;
            if said.contains(why) {
                Ok(said)
            } else {
                Err(said)
            }
        })
        .await?;
        assert!(said.starts_with("\"InvalidCertificateRef\""), "{said}");
        listener_is(&world.host, "bad", "Programmed", "False").await?;
        for condition in ["ResolvedRefs", "Accepted", "Programmed"] {
            listener_is(&world.host, "good", condition, "True").await?;
        }
        assert_eq!(kept.get().await?, (StatusCode::OK, "a".to_owned()));
        let fresh = good.served(port, "good.example").await?.get().await?;
        assert_eq!(fresh, (StatusCode::OK, "a".to_owned()));
        assert!(bad.connect(port, "bad.example", &[]).await.is_err());
    }
    world.write("secret.yaml", &bad.secret("bad"))?;
    let found = bad.served(port, "bad.example").await?.get().await?;
    assert_eq!(found, (StatusCode::OK, "b".to_owned()));
    listener_is(&world.host, "bad", "ResolvedRefs", "True").await?;
    listener_is(&world.host, "bad", "Programmed", "True").await?;
    world.host.stop().await
}

#[tokio::test]
async fn another_namespace_must_grant_its_secrets() -> anyhow::Result<()> {
    let pair = Pair::new("a.example")?;
    let [port] = paths::free_ports()?;
    let gateway = gateway(port, &[("a", "a.example", "a")]).replace(
        "certificateRefs: [{name: a}]",
        "certificateRefs: [{name: a, namespace: other}]",
    );
    let secret = pair
        .secret("a")
        .replace("{name: a}", "{name: a, namespace: other}");
    let world = World::start(&(gateway + &secret)).await?;
    let said = listener_is(&world.host, "a", "ResolvedRefs", "False").await?;
    assert!(said.starts_with("\"RefNotPermitted\""), "{said}");
    assert!(pair.connect(port, "a.example", &[]).await.is_err());
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: g, namespace: other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: default}]
  to: [{group: '', kind: Secret, name: a}]
";
    world.write("grant.yaml", grant)?;
    let found = pair.served(port, "a.example").await?.get().await?;
    assert_eq!(found, (StatusCode::OK, "a".to_owned()));
    listener_is(&world.host, "a", "ResolvedRefs", "True").await?;
    world.host.stop().await
}

/// A certificate that says that it is of X.509 version 6, which no check of this project minds and
/// Envoy's TLS library does.
fn of_version_6(pair: &Pair) -> anyhow::Result<String> {
    // The version field of a certificate: [0] EXPLICIT INTEGER, 2 for version 3.
    let field = [0xa0, 3, 2, 1, 2];
    let mut der = pair.certificate.der().to_vec();
    let at = der.windows(field.len()).position(|it| it == field);
    let version = at.context("a version")? + field.len() - 1;
    der[version] = 5;
    let text = STANDARD.encode(der);
    Ok(format!(
        "-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"
    ))
}

#[tokio::test]
async fn a_certificate_that_envoy_refuses_is_held_and_the_last_one_is_served() -> anyhow::Result<()>
{
    let [a, b, next] = [
        Pair::new("a.example")?,
        Pair::new("b.example")?,
        Pair::new("a.example")?,
    ];
    let [port] = paths::free_ports()?;
    let both = gateway(port, &[("a", "a.example", "a"), ("b", "b.example", "b")]);
    let start = both.clone() + &a.secret("a") + &b.secret("b");
    let world = World::start(&start).await?;
    a.served(port, "a.example").await?;
    world.host.programmed("Gateway", "tls").await?;

    let broken = next.secret("a").replace(
        &indented(&next.certificate.pem()),
        &indented(&of_version_6(&next)?),
    );
    world.replace(&(both.clone() + &broken + &b.secret("b")))?;
    let said = world
        .host
        .condition("Secret", "a", "Programmed", "False")
        .await?;
    assert!(said.starts_with("Rejected: "), "{said}");
    assert!(said.contains("Failed to load certificate chain"), "{said}");
    for (pair, host) in [(&a, "a.example"), (&b, "b.example")] {
        let mut kept = pair.served(port, host).await?;
        assert_eq!(kept.get().await?.0, StatusCode::OK);
    }
    world.host.programmed("Gateway", "tls").await?;

    world.replace(&(both + &next.secret("a") + &b.secret("b")))?;
    next.served(port, "a.example").await?;
    world.host.stop().await
}
