//! ConfigMaps that hold modules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// A ConfigMap with a policy module, compressed, as `kubectl create configmap` would make it of a
/// `module.yaml` and a `module.wasm.gz`.
pub fn config_map(name: &str, version: &str, component: &[u8]) -> anyhow::Result<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(component)?;
    let component = STANDARD.encode(gzip.finish()?);
    Ok(format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}-module
  labels:
    chiton.dev/module: {name}
data:
  module.yaml: |
    name: {name}
    version: {version}
binaryData:
  module.wasm.gz: {component}
"
    ))
}
