//! A module as a `ConfigMap` offers it.

use super::Manifest;
use crate::sandbox::{self, MAX_COMPONENT};
use crate::store::{Key, Object, Snapshot};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chiton_ir::GroupKind;
use chiton_ir::gateway::{LabelOperator, LabelRequirement, LabelSelector};
use chiton_ir::kinds::MODULE_LABEL;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const MANIFEST: &str = "module.yaml";
const PLAIN: &str = "module.wasm";
const GZIPPED: &str = "module.wasm.gz";

/// An offer, read as far as can be done without its component.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// The `ConfigMap`.
    pub source: Key,
    /// Name of the module; the `ConfigMap`'s if its manifest gives none.
    pub name: String,
    /// Text of the manifest.
    pub text: String,
    /// The manifest, or what is wrong with it.
    pub manifest: Result<Manifest, String>,
    /// SHA-256 of all that is offered: the same offer is judged once.
    pub fingerprint: String,
    binary: Value,
}

/// The `ConfigMap`s that offer modules, oldest first.
pub(super) fn config_maps(inputs: &Snapshot) -> Vec<Arc<Object>> {
    let labelled = LabelSelector {
        match_expressions: vec![LabelRequirement {
            key: MODULE_LABEL.into(),
            operator: LabelOperator::Exists,
            values: Vec::new(),
        }],
        ..LabelSelector::default()
    };
    let mut found: Vec<Arc<Object>> = inputs
        .list(&GroupKind::new("", "ConfigMap"), None, &labelled)
        .cloned()
        .collect();
    found.sort_by(|a, b| a.age().cmp(&b.age()));
    found
}

impl Offer {
    /// Reads an offer. `known` says which module came from a `ConfigMap` before: a manifest that
    /// cannot be read any more must not retire it.
    pub(super) fn read(object: &Object, known: impl FnOnce(&Key) -> Option<String>) -> Self {
        let body: Value = serde_json::from_slice(&object.body).unwrap_or_default();
        let text = body
            .get("data")
            .and_then(|data| data.get(MANIFEST))
            .and_then(Value::as_str);
        let manifest = match (&object.problem, text) {
            (Some(problem), _) => Err(problem.clone()),
            (None, None) => Err(format!("the ConfigMap has no {MANIFEST} under `data`")),
            (None, Some(text)) => Manifest::parse(text),
        };
        let text = text.unwrap_or_default().to_owned();
        let name = match &manifest {
            Ok(manifest) => Some(manifest.name.clone()),
            Err(_) => Manifest::name_in(&text).or_else(|| known(&object.key)),
        };
        let binary = body.get("binaryData").cloned().unwrap_or_default();
        Self {
            source: object.key.clone(),
            name: name.unwrap_or_else(|| object.key.name.to_string()),
            fingerprint: sandbox::digest(
                format!("{text}\0{binary}\0{:?}", object.problem).as_bytes(),
            ),
            text,
            manifest,
            binary,
        }
    }

    /// The component's bytes.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the `ConfigMap` or the file.
    pub(super) fn fetch(&self, manifest: &Manifest) -> Result<Vec<u8>, String> {
        let bytes = match (
            &manifest.file,
            self.binary.get(PLAIN),
            self.binary.get(GZIPPED),
        ) {
            (Some(path), None, None) => read_file(path)?,
            (None, Some(plain), None) => decode(PLAIN, plain)?,
            (None, None, Some(gzipped)) => unzip(&decode(GZIPPED, gzipped)?)?,
            (None, None, None) => {
                return Err(format!(
                    "the ConfigMap has neither {PLAIN} nor {GZIPPED} under `binaryData`, and its manifest no source"
                ));
            }
            _ => {
                return Err(format!(
                    "the component is there more than once: keep one of {PLAIN}, {GZIPPED} and the manifest's source"
                ));
            }
        };
        if let Some(wanted) = &manifest.sha256 {
            let found = sandbox::digest(&bytes);
            if found != *wanted {
                return Err(format!(
                    "the component has the sha256 {found}, its manifest says {wanted}"
                ));
            }
        }
        Ok(bytes)
    }
}

fn decode(key: &str, value: &Value) -> Result<Vec<u8>, String> {
    let text: String = value
        .as_str()
        .ok_or_else(|| format!("binaryData.{key} is not text"))?
        .split_ascii_whitespace()
        .collect();
    STANDARD
        .decode(text)
        .map_err(|error| format!("binaryData.{key} is not base64: {error}"))
}

fn unzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    bounded(GzDecoder::new(bytes))
        .map_err(|error| format!("binaryData.{GZIPPED} is not gzip: {error}"))
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::File::open(path)
        .and_then(bounded)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// All bytes, or one more than a component may have: enough to refuse it.
fn bounded(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_COMPONENT).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
