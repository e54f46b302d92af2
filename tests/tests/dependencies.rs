//! Dependencies point one way: what others build on knows nothing of the host.

use anyhow::Context as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Names of everything that a workspace package depends on, directly or not.
fn dependencies(package: &str) -> anyhow::Result<BTreeSet<String>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
        ])
        .current_dir(chiton_tests::paths::workspace())
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let name = |id: &str| {
        packages
            .iter()
            .find(|package| package["id"] == id)
            .map(|package| text(&package["name"]))
            .unwrap_or_default()
    };
    let nodes = list(&metadata["resolve"]["nodes"]);
    let root = nodes
        .iter()
        .map(|node| text(&node["id"]))
        .find(|id| name(id) == package)
        .with_context(|| format!("the workspace has no package {package}"))?;
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        let node = nodes
            .iter()
            .find(|node| node["id"] == *id)
            .context("a node is missing")?;
        for dependency in list(&node["deps"]) {
            // Tests of a crate may use others; the crate itself may not.
            let kinds = list(&dependency["dep_kinds"]);
            let is_dev_only = kinds.iter().all(|kind| kind["kind"] == "dev");
            let id = text(&dependency["pkg"]);
            if !is_dev_only && seen.insert(id.clone()) {
                open.push(id);
            }
        }
    }
    Ok(seen.iter().map(|id| name(id)).collect())
}

#[test]
fn what_others_build_on_does_not_know_the_host() -> anyhow::Result<()> {
    for package in ["chiton-xds", "chiton-ir", "chiton-guest"] {
        let dependencies = dependencies(package)?;
        assert!(
            !dependencies.is_empty(),
            "{package} has no dependencies at all: the test looks at nothing"
        );
        assert!(
            !dependencies.contains("chiton"),
            "{package} depends on the host"
        );
    }
    Ok(())
}

#[test]
fn the_xds_server_knows_nothing_of_kubernetes_or_wasm() -> anyhow::Result<()> {
    let dependencies = dependencies("chiton-xds")?;
    for foreign in [
        "kube",
        "kube-core",
        "k8s-openapi",
        "gateway-api",
        "wasmtime",
        "chiton-ir",
    ] {
        assert!(
            !dependencies.contains(foreign),
            "chiton-xds depends on {foreign}"
        );
    }
    Ok(())
}

/// The contract stands alone: it names no package but its own.
#[test]
fn the_contract_depends_on_nothing() -> anyhow::Result<()> {
    let wit = std::fs::read_to_string(chiton_tests::paths::workspace().join("wit/chiton.wit"))?;
    let packages: BTreeSet<&str> = wit
        .split_whitespace()
        .filter(|word| !word.starts_with("//") && word.contains(':') && word.contains('@'))
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        .collect();
    assert_eq!(packages, BTreeSet::from(["chiton:reconcile@0.1.0"]));
    Ok(())
}
