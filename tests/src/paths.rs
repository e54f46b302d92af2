//! Where things are.

use anyhow::{Context as _, bail};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// A binary of this workspace: in `$CHITON_BIN_DIR`, else in the target folder's `debug`.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let dir = match std::env::var_os("CHITON_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace().join("target"), PathBuf::from)
            .join("debug"),
    };
    let path = dir.join(name);
    if !path.is_file() {
        bail!(
            "{} is not built: run `make test`, or `cargo build -p {name}`",
            path.display()
        );
    }
    Ok(path)
}

/// A component that `make guests` built.
pub fn guest(name: &str) -> anyhow::Result<PathBuf> {
    let path = workspace()
        .join("target/guests")
        .join(name)
        .with_extension("wasm");
    if !path.is_file() {
        bail!("{} is not built: run `make guests`", path.display());
    }
    Ok(path)
}

/// A Go program of `tests/xds`, in `$CHITON_XDS_CLIENTS`.
pub fn xds_client(name: &str) -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("CHITON_XDS_CLIENTS").context(
        "CHITON_XDS_CLIENTS is not set: set it to the folder that `tests/tools/xds-clients.sh \
         ~/.cache/chiton` builds and prints, or run `make test`",
    )?;
    Ok(Path::new(&folder).join(name))
}

/// The real Envoy: `$ENVOY`, else the first in `$PATH`.
pub fn envoy() -> anyhow::Result<PathBuf> {
    if let Some(envoy) = std::env::var_os("ENVOY") {
        return Ok(envoy.into());
    }
    let path = std::env::var_os("PATH").context("PATH is not set")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join("envoy"))
        .find(|envoy| envoy.is_file())
        .context(
            "no Envoy: set ENVOY to its path (tests/tools/envoy.sh fetches it), or run `make test`",
        )
}

/// Ports of 127.0.0.1 that were free a moment ago, all different.
pub fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let listeners: Vec<TcpListener> = (0..N)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
