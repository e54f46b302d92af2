//! From a core module to a component, checked as the host will check it.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;
use wit_component::{ComponentEncoder, DecodedWasm};
use wit_parser::{Resolve, WorldItem, WorldKey};

/// What every component exports.
const EXPORT: &str = "chiton:reconcile/reconciler@";

/// The interfaces that a component may import, by role (`wit/chiton.wit`). `types` has no
/// functions.
pub fn imports_of(role: &str) -> &'static [&'static str] {
    match role {
        "gateway" | "policy" => &["types", "objects", "clock", "logging"],
        "api" => &["types", "objects", "outputs", "clock", "logging"],
        _ => &[
            "types", "objects", "outputs", "attached", "clock", "logging",
        ],
    }
}

/// Writes the component of a core module and prints its name, size and sha256. Without a role,
/// the imports of every role are allowed: the host knows the role when it loads the module.
pub fn write(core: &[u8], out: &Path, role: Option<&str>) -> Result<()> {
    let component = encode(core).with_context(|| {
        format!(
            "cannot make {} of a module that was not built with chiton-guest",
            out.display()
        )
    })?;
    check(&component, role.unwrap_or_default())
        .with_context(|| format!("{} would be refused by the host", out.display()))?;
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::write(out, &component).with_context(|| format!("cannot write {}", out.display()))?;
    let name = out.file_stem().unwrap_or_default().to_string_lossy();
    println!(
        "{name:<12} {:>8} bytes  sha256 {}",
        component.len(),
        sha256(&component)
    );
    Ok(())
}

/// The sha256 of some bytes, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

fn encode(core: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default()
        .validate(true)
        .module(core)?
        .encode()
}

/// Refuses what is not a reconciler, and every import but those of the role, above all WASI.
fn check(component: &[u8], role: &str) -> Result<()> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component)? else {
        bail!("not a component");
    };
    let Some(world) = resolve.worlds.get(world) else {
        bail!("the component has no world");
    };
    let allowed = imports_of(role);
    for (key, item) in &world.imports {
        let name = name(&resolve, key, item);
        let known = name
            .strip_prefix("chiton:reconcile/")
            .and_then(|name| name.split('@').next())
            .is_some_and(|interface| allowed.contains(&interface));
        if !known {
            bail!("it imports {name}; allowed are {}", allowed.join(", "));
        }
    }
    let exports = |(key, item)| name(&resolve, key, item).starts_with(EXPORT);
    if !world.exports.iter().any(exports) {
        bail!("it does not export {EXPORT}…: call chiton_guest::export! once");
    }
    Ok(())
}

fn name(resolve: &Resolve, key: &WorldKey, item: &WorldItem) -> String {
    match item {
        WorldItem::Interface { id, .. } => resolve.id_of(*id),
        _ => None,
    }
    .unwrap_or_else(|| resolve.name_world_key(key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_core_module_without_the_contract_is_refused() {
        let empty = b"\0asm\x01\0\0\0";
        let component = encode(empty).expect("a component without imports and exports");
        let error = check(&component, "policy").expect_err("refused");
        assert!(error.to_string().contains("does not export"), "{error}");
    }

    #[test]
    fn rubbish_is_refused() {
        assert!(
            encode(b"\0asm\x0d\0\x01\0").is_err(),
            "a component is not a core module"
        );
        assert!(encode(b"").is_err());
    }
}
