//! Embeds the built-in reconcilers.
//!
//! They are components for another target, built by `make guests`; cargo cannot build them from here.

use std::fmt::Write;
use std::path::PathBuf;

/// The built-in reconcilers. Each is `<name>.wasm` in the folder of guests.
const BUILTIN: [&str; 7] = [
    "gateway",
    "route",
    "api",
    "headers",
    "cors",
    "rate-limit",
    "api-key",
];

fn main() {
    println!("cargo::rerun-if-env-changed=CHITON_GUESTS");
    println!("cargo::rerun-if-changed=build.rs");
    let dir = guests();
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut list = String::from(
        "/// Name and component of each built-in reconciler.\nstatic EMBEDDED: &[(&str, &[u8])] = &[\n",
    );
    for name in BUILTIN {
        let path = dir.join(format!("{name}.wasm"));
        println!("cargo::rerun-if-changed={}", path.display());
        if !path.is_file() {
            println!(
                "cargo::error=built-in reconcilers are missing: run `make guests` (there is no {})",
                path.display()
            );
            return;
        }
        // As a string literal, hence the quotes and escapes of `Debug`.
        let path = path.display().to_string();
        let _ = writeln!(list, "    ({name:?}, include_bytes!({path:?})),");
    }
    list.push_str("];\n");
    write(&list);
}

/// The folder of components: `$CHITON_GUESTS`, or `target/guests` of the workspace. Where that is, is
/// asked when this runs: a target folder may have come from another checkout.
fn guests() -> PathBuf {
    match std::env::var_os("CHITON_GUESTS") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
            .join("../target/guests"),
    }
}

fn write(list: &str) {
    let out = std::env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    if let Err(error) = std::fs::write(out.join("builtin.rs"), list) {
        println!("cargo::error=the list of built-in reconcilers cannot be written: {error}");
    }
}
