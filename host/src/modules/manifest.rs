//! `module.yaml`: what a module's author says of it, and what the operator grants it.

use super::FailurePolicy;
use crate::sandbox::{Limits, MAX_MEMORY, is_dns_label};
use chiton_ir::GroupKind;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// A module's manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Name, as the component gives it.
    pub name: String,
    /// Version, for people.
    pub version: String,
    /// SHA-256 that the component must have, in lower-case hexadecimal.
    pub sha256: Option<String>,
    /// A file that holds the component, instead of the `ConfigMap` itself.
    pub file: Option<PathBuf>,
    /// Kinds that the component may handle; none: what it says.
    pub handles: Option<Vec<GroupKind>>,
    /// Kinds that it may read.
    pub reads: BTreeSet<GroupKind>,
    /// What holds while the module fails.
    pub failure_policy: FailurePolicy,
    /// Limits of each call.
    pub limits: Limits,
    /// Settings for the module, a JSON object.
    pub settings: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    name: String,
    version: String,
    sha256: Option<String>,
    source: Option<String>,
    handles: Option<Vec<GroupKind>>,
    #[serde(default)]
    reads: BTreeSet<GroupKind>,
    #[serde(default)]
    failure_policy: FailurePolicy,
    #[serde(default)]
    limits: RawLimits,
    settings: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawLimits {
    time_ms: Option<u32>,
    #[serde(rename = "memoryMiB")]
    memory: Option<u32>,
    #[serde(rename = "outputKiB")]
    output: Option<u32>,
    #[serde(rename = "readKiB")]
    read: Option<u32>,
    #[serde(rename = "logKiB")]
    log: Option<u32>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// A sentence that names the field and says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_saphyr::from_str(text)
            .map_err(|error| format!("module.yaml is not YAML: {}", first_line(&error)))?;
        let raw: Raw = serde_path_to_error::deserialize(&value).map_err(|error| {
            let what = error.inner().to_string();
            let hint = if what.ends_with("expected a string") {
                " (put it in quotes)"
            } else {
                ""
            };
            format!("module.yaml: {}: {what}{hint}", error.path())
        })?;
        raw.check()
    }

    /// The name in a manifest that may be wrong in everything else.
    #[must_use]
    pub fn name_in(text: &str) -> Option<String> {
        let value: Value = serde_saphyr::from_str(text).ok()?;
        let name = value.get("name")?.as_str()?;
        is_dns_label(name).then(|| name.to_owned())
    }

    /// The failure policy in a manifest that may be wrong in everything else. One that is itself
    /// wrong was at least not meant to let requests pass as usual.
    #[must_use]
    pub fn failure_policy_in(text: &str) -> FailurePolicy {
        let value: Value = serde_saphyr::from_str(text).unwrap_or_default();
        match value.get("failurePolicy") {
            None => FailurePolicy::default(),
            Some(policy) => FailurePolicy::deserialize(policy).unwrap_or(FailurePolicy::FailClosed),
        }
    }
}

impl Raw {
    fn check(self) -> Result<Manifest, String> {
        if !is_dns_label(&self.name) {
            return wrong(
                "name",
                "must be a DNS label: lower-case letters, digits and `-`, at most 63",
            );
        }
        if self.version.is_empty() || self.version.len() > 64 {
            return wrong("version", "must have 1 to 64 characters");
        }
        let sha256 = self.sha256.as_deref().map(hexadecimal).transpose()?;
        let file = self.source.as_deref().map(file).transpose()?;
        if file.is_some() && sha256.is_none() {
            return wrong(
                "sha256",
                "is needed with a source: it says which version of the file is meant",
            );
        }
        let settings = match self.settings {
            None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
            Some(settings @ Value::Object(_)) => settings,
            Some(_) => return wrong("settings", "must be a mapping"),
        };
        Ok(Manifest {
            limits: self.limits.check()?,
            name: self.name,
            version: self.version,
            sha256,
            file,
            handles: self.handles,
            reads: self.reads,
            failure_policy: self.failure_policy,
            settings,
        })
    }
}

impl RawLimits {
    fn check(&self) -> Result<Limits, String> {
        let usual = Limits::default();
        let memory_limit = u32::try_from(MAX_MEMORY >> 20).unwrap_or(u32::MAX);
        let time = bounded("limits.timeMs", self.time_ms, 1..=10_000)?;
        let memory = bounded("limits.memoryMiB", self.memory, 1..=memory_limit)?;
        let output = bounded("limits.outputKiB", self.output, 1..=16_384)?;
        let reads = bounded("limits.readKiB", self.read, 0..=65_536)?;
        let log = bounded("limits.logKiB", self.log, 0..=1_024)?;
        Ok(Limits {
            time: time.map_or(usual.time, |ms| Duration::from_millis(ms as u64)),
            memory: memory.map_or(usual.memory, |mib| mib << 20),
            output: output.map_or(usual.output, |kib| kib << 10),
            reads: reads.map_or(usual.reads, |kib| kib << 10),
            log: log.map_or(usual.log, |kib| kib << 10),
        })
    }
}

fn bounded(
    field: &str,
    value: Option<u32>,
    range: std::ops::RangeInclusive<u32>,
) -> Result<Option<usize>, String> {
    match value {
        Some(value) if !range.contains(&value) => wrong(
            field,
            &format!("must be {} to {}", range.start(), range.end()),
        ),
        value => Ok(value.and_then(|value| usize::try_from(value).ok())),
    }
}

fn hexadecimal(text: &str) -> Result<String, String> {
    let text = text.strip_prefix("sha256:").unwrap_or(text).to_lowercase();
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text)
    } else {
        wrong("sha256", "must be 64 hexadecimal digits")
    }
}

fn file(source: &str) -> Result<PathBuf, String> {
    match source.strip_prefix("file://").map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(path),
        Some(_) => wrong("source", "must name a file by its whole path: file:///…"),
        None => wrong(
            "source",
            "must begin with file://; without a source the component is in binaryData",
        ),
    }
}

fn wrong<T>(field: &str, what: &str) -> Result<T, String> {
    Err(format!("module.yaml: {field}: {what}"))
}

fn first_line(error: &impl std::fmt::Display) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn a_short_manifest_has_the_usual_terms() {
        let manifest = Manifest::parse("name: hello\nversion: 1.0.0\n").expect("a manifest");
        assert_eq!(manifest.limits, Limits::default());
        assert_eq!(manifest.failure_policy, FailurePolicy::KeepLast);
        assert_eq!(manifest.settings, serde_json::json!({}));
        assert!(manifest.reads.is_empty());
    }

    #[test]
    fn a_whole_manifest_is_read() {
        let sha256 = "A".repeat(64);
        let manifest = Manifest::parse(&format!(
            "name: hello
version: '2'
sha256: {sha256}
source: file:///modules/hello.wasm
handles: [{{group: example.com, kind: Greeting}}]
reads: [{{kind: ConfigMap}}]
failurePolicy: fail-closed
limits: {{timeMs: 50, memoryMiB: 8, outputKiB: 64, readKiB: 0, logKiB: 1}}
settings: {{word: hello}}
"
        ))
        .expect("a manifest");
        assert_eq!(manifest.sha256, Some("a".repeat(64)));
        assert_eq!(manifest.file, Some(PathBuf::from("/modules/hello.wasm")));
        assert_eq!(
            manifest.handles,
            Some(vec![GroupKind::new("example.com", "Greeting")])
        );
        assert!(manifest.reads.contains(&GroupKind::new("", "ConfigMap")));
        assert_eq!(manifest.failure_policy, FailurePolicy::FailClosed);
        assert_eq!(
            manifest.limits,
            Limits {
                time: Duration::from_millis(50),
                memory: 8 << 20,
                output: 64 << 10,
                reads: 0,
                log: 1 << 10,
            }
        );
    }

    #[test]
    fn errors_name_the_field() {
        let base = "name: hello\nversion: 1.0.0\n";
        let cases = [
            ("name: [", "module.yaml is not YAML: "),
            ("version: 1.0.0", "module.yaml: .: missing field `name`"),
            ("name: hello", "module.yaml: .: missing field `version`"),
            (
                "name: Hello\nversion: '1'",
                "module.yaml: name: must be a DNS label",
            ),
            (
                "name: hello\nversion: ''",
                "module.yaml: version: must have 1 to 64",
            ),
            (
                &format!("{base}sha257: x"),
                "module.yaml: sha257: unknown field `sha257`",
            ),
            (
                &format!("{base}sha256: abc"),
                "module.yaml: sha256: must be 64 hexadecimal",
            ),
            (
                &format!("{base}source: oci://x"),
                "module.yaml: source: must begin with file://",
            ),
            (
                &format!("{base}source: file://x"),
                "module.yaml: source: must name a file by its",
            ),
            (
                &format!("{base}source: file:///x"),
                "module.yaml: sha256: is needed with a source",
            ),
            (
                &format!("{base}failurePolicy: open"),
                "module.yaml: failurePolicy: unknown variant `open`, expected one of `keep-last`",
            ),
            (
                &format!("{base}limits: {{timeMs: 0}}"),
                "module.yaml: limits.timeMs: must be 1 to 10000",
            ),
            (
                &format!("{base}limits: {{memoryMiB: 257}}"),
                "module.yaml: limits.memoryMiB: must be 1 to 256",
            ),
            (
                &format!("{base}limits: {{fuel: 1}}"),
                "module.yaml: limits.fuel: unknown field `fuel`",
            ),
            (
                &format!("{base}reads: [{{kind: A, name: b}}]"),
                "module.yaml: reads[0].name: unknown field `name`",
            ),
            (
                &format!("{base}settings: 1"),
                "module.yaml: settings: must be a mapping",
            ),
        ];
        for (text, expected) in cases {
            let error = Manifest::parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
