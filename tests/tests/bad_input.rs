//! Bad input under load: it is said what is wrong with it, and nothing else is lost or delayed.
//!
//! The inputs are the golden cases `bad-*`, without the Gateway and the good route that they have in
//! common: here these are served and asked by a steady load, while one bad file after another is put
//! beside them.

use anyhow::{Context as _, bail, ensure};
use chiton_tests::load::Load;
use chiton_tests::{World, paths, wait};
use serde_json::Value;

/// The good route, which the load asks, and which no bad input may touch.
const GOOD: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: good}
spec:
  parentRefs: [{name: gateway}]
  rules:
    - matches: [{path: {value: /good}}]
      backendRefs: [{group: chiton.dev, kind: Backend, name: a}]
---
";

/// What is put beside it, and a part of what must be said: of an object in its conditions, of a file in
/// the list of problems, of a module in the list of modules.
const INPUTS: &[(&str, &[Said])] = &[
    ("bad-syntax", &[Said::File("does not parse")]),
    (
        "bad-duplicate-key",
        &[Said::File("the key hostnames stands twice")],
    ),
    (
        "bad-field",
        &[
            Said::Object("HTTPRoute", "bad", "spec.rules[0].matchs: unknown field"),
            Said::Object(
                "Gateway",
                "bad-gateway",
                "spec.listeners[0].hostnam: unknown field",
            ),
            Said::Object("API", "bad-api", "spec.default: unknown field"),
            Said::Object("Policy", "bad-policy", "spec.defaults: unknown field"),
        ],
    ),
    (
        "bad-type",
        &[
            Said::Object(
                "HTTPRoute",
                "bad",
                "spec.rules[0].matches: invalid type: map",
            ),
            Said::Object(
                "Gateway",
                "bad-gateway",
                "spec.listeners[0].port: invalid type: string",
            ),
        ],
    ),
    (
        "bad-enum",
        &[
            Said::Object("HTTPRoute", "bad", "unknown variant `Glob`"),
            Said::Object("HTTPRoute", "filter", "unknown variant `Compress`"),
            Said::Object("Policy", "bad-policy", "fortnight"),
        ],
    ),
    ("bad-large", &[Said::File("bytes long as JSON")]),
    (
        "bad-regex",
        &[Said::Object(
            "HTTPRoute",
            "bad",
            "is not a regular expression of RE2",
        )],
    ),
    (
        "bad-header-name",
        &[
            Said::Object("HTTPRoute", "bad", "may not be `host`"),
            Said::Object("Policy", "bad-policy", "is not a header name"),
        ],
    ),
    (
        "bad-header-value",
        &[
            Said::Object("HTTPRoute", "bad", "must not have control characters"),
            Said::Object("Policy", "bad-policy", "must not have control characters"),
        ],
    ),
    (
        "bad-listener",
        &[Said::Object(
            "Gateway",
            "bad-gateway",
            "is the name of another listener",
        )],
    ),
    (
        "bad-hostname",
        &[
            Said::Object("HTTPRoute", "bad", "spec.hostnames[0]"),
            Said::Object("HTTPRoute", "address", "spec.hostnames[0]"),
            Said::Object("HTTPRoute", "wild", "spec.hostnames[0]"),
            Said::Object("Gateway", "bad-gateway", "hostname: "),
        ],
    ),
    (
        "bad-weight",
        &[Said::Object("HTTPRoute", "bad", "-1 is not a weight")],
    ),
    (
        "bad-reference",
        &[
            Said::Object("HTTPRoute", "bad", "Service default/nowhere does not exist"),
            Said::Object("HTTPRoute", "forbidden", "no ReferenceGrant there allows"),
        ],
    ),
    (
        "bad-module-name",
        &[Said::Object(
            "Policy",
            "bad-policy",
            "no module is named \"nonesuch\"",
        )],
    ),
    (
        "bad-settings",
        &[
            Said::Object("Policy", "bad-policy", "spec.default.requests: "),
            Said::Object("Policy", "unknown", "allowOrigin"),
            Said::Object("Policy", "type", "spec.default.request"),
            Said::Object("Policy", "empty", "changes nothing"),
        ],
    ),
    (
        "bad-secret",
        &[
            Said::Object("Gateway", "bad-gateway", "has no entry tls.key"),
            Said::Object(
                "Gateway",
                "bad-gateway",
                "does not belong to the certificate",
            ),
            Said::Object("Gateway", "bad-gateway", "holds no certificate in PEM"),
        ],
    ),
    (
        "bad-rules",
        &[Said::Object(
            "HTTPRoute",
            "bad",
            "spec.rules: has 10000 entries",
        )],
    ),
    (
        "bad-names",
        &[
            Said::File("metadata.name 'caf\u{e9}'"),
            Said::File("metadata.name 'nul\\u{0}'"),
            Said::File("metadata.name '../bad'"),
        ],
    ),
    (
        "bad-version",
        &[
            Said::File(
                "apiVersion 'gateway.networking.k8s.io/v9' of kind HTTPRoute is not supported",
            ),
            Said::File("is not a Kubernetes object"),
        ],
    ),
    (
        "bad-module-empty",
        &[
            Said::Module("empty", "is empty (0 bytes)"),
            Said::Object("Policy", "p", "empty"),
        ],
    ),
    (
        "bad-module-truncated",
        &[Said::Module("truncated", "the component")],
    ),
    ("bad-module-core", &[Said::Module("core", "core module")]),
    (
        "bad-module-wasi",
        &[Said::Module("wasi", "wasi:cli/environment")],
    ),
    ("bad-module-contract", &[Said::Module("contract", "9.9.0")]),
    (
        "bad-module-nothing",
        &[Said::Module("nothing", "the component")],
    ),
    (
        "bad-module-manifest",
        &[
            Said::Module("field", "sha265: unknown field"),
            Said::Module("digest", "its manifest says ffff"),
            Said::Module("no-manifest", "has no module.yaml"),
        ],
    ),
];

/// Where something must be said, and a part of it.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// In a condition of an object: kind, name, text.
    Object(&'static str, &'static str, &'static str),
    /// Of a file.
    File(&'static str),
    /// Of a module: name, text.
    Module(&'static str, &'static str),
}

#[tokio::test]
async fn is_said_and_hurts_nobody() -> anyhow::Result<()> {
    let world = World::start(GOOD).await?;
    world.served_by("/good", "a").await?;
    let load = Load::start(world.port, &world.get("/good"), 2, 50);
    for (index, (case, said)) in INPUTS.iter().enumerate() {
        offer(&world, index, case, said)
            .await
            .with_context(|| format!("{case}\n{}", world.host.output()))?;
    }
    // What was bad goes; the last good change of a neighbour is still there.
    world.host.remove("bad.yaml")?;
    world.served_by("/good", "a").await?;
    let report = load.stop().await;
    ensure!(report.sent > 0, "the load asked nothing");
    ensure!(report.failed == 0, "{report:?}");
    let nacks = world.host.nacks().await?;
    ensure!(nacks.is_empty(), "Envoy refused something: {nacks:?}");
    world.host.stop().await
}

/// Puts one bad file beside the good ones and checks what is said, then that a later change of another
/// object still arrives.
async fn offer(world: &World, index: usize, case: &str, said: &[Said]) -> anyhow::Result<()> {
    world.host.write("bad.yaml", &bad_part(case)?)?;
    for one in said {
        wait::until(&format!("{one:?}"), async || is_said(world, *one).await).await?;
    }
    let backend = if index.is_multiple_of(2) { "b" } else { "c" };
    world.write("neighbour.yaml", &neighbour(backend))?;
    world.served_by("/neighbour", backend).await?;
    let good = world.get("/good").send().await?;
    ensure!(good.backend() == "a", "the good route answers {good:?}");
    // A file that does not parse would keep the objects of the one before it.
    if index + 1 < INPUTS.len() {
        world.host.remove("bad.yaml")?;
        wait::until("the bad file is gone", async || are_gone(world).await).await?;
    }
    Ok(())
}

/// The documents of a case, without those that all cases have in common.
fn bad_part(case: &str) -> anyhow::Result<String> {
    const COMMON: usize = 4;
    let path = paths::workspace()
        .join("tests/golden")
        .join(case)
        .join("in.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let documents: Vec<&str> = text.split("\n---\n").skip(COMMON).collect();
    ensure!(!documents.is_empty(), "{case} has nothing bad");
    Ok(documents.join("\n---\n"))
}

fn neighbour(backend: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: neighbour}}
spec:
  parentRefs: [{{name: gateway}}]
  rules:
    - matches: [{{path: {{value: /neighbour}}}}]
      backendRefs: [{{group: chiton.dev, kind: Backend, name: {backend}}}]
"
    )
}

async fn is_said(world: &World, said: Said) -> anyhow::Result<()> {
    let (path, about, text) = match said {
        Said::Object(kind, name, text) => ("/api/v1/objects", Some((kind, name)), text),
        Said::File(text) => ("/api/v1/problems", None, text),
        Said::Module(name, text) => ("/api/v1/modules", Some(("", name)), text),
    };
    let list = world.host.admin(path).await?.json();
    let is_about = |entry: &&Value| match about {
        Some(("", name)) => entry["name"] == name,
        Some((kind, name)) => entry["kind"] == kind && entry["name"] == name,
        None => true,
    };
    let entries: Vec<&Value> = list
        .as_array()
        .context("no list")?
        .iter()
        .filter(is_about)
        .collect();
    let found = entries
        .iter()
        .flat_map(|entry| sentences(entry))
        .any(|sentence| sentence.contains(text));
    if !found {
        bail!("{text:?} is not in {entries:#?}");
    }
    Ok(())
}

/// Everything that an entry says.
fn sentences(entry: &Value) -> Vec<&str> {
    match entry {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(sentences).collect(),
        Value::Object(fields) => fields.values().flat_map(sentences).collect(),
        _ => Vec::new(),
    }
}

/// Nothing is left of the bad file: neither objects nor problems nor modules.
async fn are_gone(world: &World) -> anyhow::Result<()> {
    let objects = world.host.admin("/api/v1/objects").await?.json();
    let problems = world.host.admin("/api/v1/problems").await?.json();
    for entry in objects
        .as_array()
        .into_iter()
        .chain(problems.as_array())
        .flatten()
    {
        if sentences(entry)
            .iter()
            .any(|text| text.contains("bad.yaml"))
        {
            bail!("there still is {entry:#}");
        }
    }
    Ok(())
}
