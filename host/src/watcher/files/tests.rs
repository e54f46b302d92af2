//! The whole source, against real folders: once with a clock of the test's own, once followed with
//! the kernel's events.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::format_collect
)]

mod saving;
mod steps;

use std::path::Path;

/// A manifest of a Service with one port.
fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  ports:\n  - port: {port}\n"
    )
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("write a manifest");
}
