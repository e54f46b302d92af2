//! `chiton render` and `chiton validate` as scripts see them.

use crate::cases::{chiton, named};
use anyhow::ensure;
use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn validate_is_silent_and_succeeds_if_all_is_well() -> anyhow::Result<()> {
    let output = chiton("validate", named("api")?.folder()?.path(), &[])?;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        (String::new(), String::new())
    );
    Ok(())
}

#[test]
fn validate_says_each_problem_in_a_line_and_fails() -> anyhow::Result<()> {
    for (case, lines) in [
        (
            "bad-weight",
            &[
                "in.yaml:29: HTTPRoute default/bad: PartiallyInvalid=True (UnsupportedValue) at Gateway default/gateway: ",
            ][..],
        ),
        (
            "bad-names",
            &[
                "in.yaml:29: HTTPRoute default/caf\u{e9}: metadata.name 'caf\u{e9}' ",
                "in.yaml:36: HTTPRoute default/nul\\u{0}: metadata.name 'nul\\u{0}' ",
            ],
        ),
        (
            "bad-module-core",
            &["in.yaml:30: ConfigMap default/core-module: module core 1.0.0: "],
        ),
        ("bad-syntax", &["in.yaml:33: does not parse: "]),
    ] {
        let output = chiton("validate", named(case)?.folder()?.path(), &[])?;
        assert_eq!(output.status.code(), Some(1), "{case}: {output:?}");
        let said = text(&output.stdout);
        for line in lines {
            ensure!(
                said.lines().any(|said| said.starts_with(line)),
                "{case}: no line begins with {line:?}:\n{said}"
            );
        }
        let count = said.lines().count();
        let sum = format!("{count} problem{}\n", if count == 1 { "" } else { "s" });
        assert_eq!(text(&output.stderr), sum, "{case}");
    }
    Ok(())
}

/// It has no condition: it may be somebody else's.
#[test]
fn validate_tells_of_a_gateway_that_nobody_serves() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let gateway = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec: {gatewayClassName: typo, listeners: [{name: l, port: 80, protocol: HTTP}]}
";
    std::fs::write(folder.path().join("in.yaml"), gateway)?;
    let output = chiton("validate", folder.path(), &[])?;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "in.yaml:1: Gateway default/g: nobody serves it: there is no GatewayClass typo; add it, or name \
         one that is there\n"
    );
    Ok(())
}

#[test]
fn json_and_yaml_say_the_same() -> anyhow::Result<()> {
    let case = named("policy-levels")?;
    let folder = case.folder()?;
    let json: Value = serde_json::from_str(&case.render(folder.path(), &["-o", "json"])?)?;
    let yaml: Value = serde_saphyr::from_str(&case.output()?)?;
    assert_eq!(json, yaml);
    Ok(())
}

#[test]
fn a_command_line_that_is_wrong_is_told_apart() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let wrong = chiton("render", folder.path(), &["--no-such-flag"])?;
    assert_eq!(wrong.status.code(), Some(2));
    let missing = chiton("render", &folder.path().join("nowhere"), &[])?;
    assert_eq!(missing.status.code(), Some(1));
    ensure!(
        text(&missing.stderr).contains("is not a folder"),
        "{missing:?}"
    );
    Ok(())
}

#[test]
fn an_empty_folder_renders_nothing() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let output = chiton("render", folder.path(), &["-o", "json"])?;
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(document["objects"], serde_json::json!([]));
    assert_eq!(document["problems"], serde_json::json!([]));
    Ok(())
}
