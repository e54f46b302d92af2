//! `examples/quickstart` in a folder of its own, with ports that are free.

use crate::{module, paths};
use anyhow::Context as _;
use std::path::Path;

/// Ports that the example's files name.
const GATEWAY: u16 = 8080;
const ORDERS: u16 = 8081;
const SANDBOX: u16 = 8082;

/// Ports to use instead.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// The Gateway's listener.
    pub gateway: u16,
    /// The backend `orders`.
    pub orders: u16,
    /// The backend `orders-sandbox`.
    pub sandbox: u16,
}

/// Files of the example, with these ports, and the ConfigMap of the module `hello`.
pub fn files(ports: Ports) -> anyhow::Result<Vec<(String, String)>> {
    let dir = paths::workspace().join("examples/quickstart");
    let mut files = vec![("hello-module.yaml".to_owned(), hello(1)?)];
    for entry in std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if Path::new(&name)
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = std::fs::read_to_string(&path)?
                .replace(
                    &format!("port: {GATEWAY}"),
                    &format!("port: {}", ports.gateway),
                )
                .replace(
                    &format!("port: {ORDERS}"),
                    &format!("port: {}", ports.orders),
                )
                .replace(
                    &format!("port: {SANDBOX}"),
                    &format!("port: {}", ports.sandbox),
                );
            files.push((name, text));
        }
    }
    files.sort();
    Ok(files)
}

/// The ConfigMap of the example policy `hello`, in one of its two versions.
pub fn hello(version: u8) -> anyhow::Result<String> {
    let guest = if version == 1 { "hello" } else { "hello-v2" };
    let component = std::fs::read(paths::guest(guest)?)?;
    module::config_map("hello", &format!("{version}.0.0"), &component)
}
