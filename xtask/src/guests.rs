//! Builds guests, the same bytes from the same source wherever it lies.
//!
//! Each guest is built by a cargo call of its own, so that the features that one needs do not get
//! into another. Paths that the compiler writes into panic messages are mapped to fixed ones.

use crate::component;
use crate::{cargo, read, workspace};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";

/// Memory that a guest has from the start, in bytes: stack (1 MiB), data, and a heap that most calls do
/// not outgrow, because each growth is a system call for the host. Pages cost nothing until they are
/// touched.
const INITIAL_MEMORY: u32 = 4 << 20;

/// Name, package and role of each built-in reconciler.
const BUILT_IN: [(&str, &str, &str); 7] = [
    ("gateway", "chiton-reconciler-gateway", "gateway"),
    ("route", "chiton-reconciler-route", "route"),
    ("api", "chiton-reconciler-api", "api"),
    ("headers", "chiton-policy-headers", "policy"),
    ("cors", "chiton-policy-cors", "policy"),
    ("rate-limit", "chiton-policy-rate-limit", "policy"),
    ("api-key", "chiton-policy-api-key", "policy"),
];

/// The profile `guest` of this workspace, for crates of other workspaces.
const PROFILE: [&str; 5] = [
    "profile.guest.inherits='release'",
    "profile.guest.lto=true",
    "profile.guest.codegen-units=1",
    "profile.guest.panic='abort'",
    "profile.guest.strip=true",
];

/// Where guests are built and from what.
pub struct Build {
    workspace: PathBuf,
    target_dir: PathBuf,
    cargo_home: Option<PathBuf>,
}

impl Build {
    /// The build of a workspace. It has a target folder of its own, so that it does not wait for a
    /// build of the host.
    pub fn of(workspace: &Path) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace.join("target"), |folder| workspace.join(folder));
        Self {
            workspace: workspace.to_owned(),
            target_dir: target.join("guest-build"),
            cargo_home: None,
        }
    }

    /// Builds below another target folder and with another `CARGO_HOME`.
    pub fn elsewhere(mut self, target_dir: PathBuf, cargo_home: PathBuf) -> Self {
        self.target_dir = target_dir;
        self.cargo_home = Some(cargo_home);
        self
    }

    /// Builds all built-in reconcilers into a folder.
    pub fn all(&self, out: &Path) -> Result<()> {
        self.fetch()?;
        for (name, package, role) in BUILT_IN {
            eprintln!("building the reconciler {name}");
            let core = self.core(&["--locked", "--package", package])?;
            component::write(&read(&core)?, &out.join(format!("{name}.wasm")), Some(role))?;
        }
        Ok(())
    }

    /// Gets the packages, so that the folders that are mapped are there before a build.
    fn fetch(&self) -> Result<()> {
        let status = Command::new(cargo())
            .args(["fetch", "--quiet", "--target", TARGET])
            .current_dir(&self.workspace)
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "cannot fetch the guests' packages");
        Ok(())
    }

    /// Builds one core module and returns its path.
    fn core(&self, arguments: &[&str]) -> Result<PathBuf> {
        let output = self
            .command()?
            .args(["build", "--lib", "--target", TARGET, "--profile", "guest"])
            .args(["--message-format", "json-render-diagnostics"])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
        ensure!(
            output.status.success(),
            "the guest did not compile; if the target is missing: rustup target add {TARGET}"
        );
        let messages = String::from_utf8(output.stdout)?;
        let mut artifacts = messages.lines().rev().filter_map(artifact);
        artifacts
            .next()
            .context("the crate is no module: its Cargo.toml needs [lib] crate-type = [\"cdylib\"]")
    }

    /// A cargo call whose result does not depend on where things lie.
    fn command(&self) -> Result<Command> {
        let mut command = Command::new(cargo());
        command
            .current_dir(&self.workspace)
            .env("CARGO_TARGET_DIR", &self.target_dir)
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags()?.join("\u{1f}"))
            .env_remove("RUSTFLAGS");
        if let Some(home) = &self.cargo_home {
            command.env("CARGO_HOME", home);
        }
        Ok(command)
    }

    /// The last mapping that fits a path is used.
    fn flags(&self) -> Result<Vec<String>> {
        let home = match &self.cargo_home {
            Some(home) => home.clone(),
            None => cargo_home()?,
        };
        let mut mappings = vec![
            (home.clone(), "/cargo"),
            (sysroot(&self.workspace)?, "/rust"),
            (self.workspace.clone(), "/chiton"),
            (self.target_dir.clone(), "/target"),
        ];
        // Their names tell from which registry or mirror the packages came.
        for registry in folders(&home.join("registry/src"))? {
            mappings.push((registry, "/packages"));
        }
        let flag =
            |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
        let mapped = mappings.into_iter().map(flag);
        let memory = format!("-Clink-arg=--initial-memory={INITIAL_MEMORY}");
        Ok(mapped.chain([memory]).collect())
    }
}

/// Builds the module of another crate, of this workspace or of another, into a folder.
pub fn build_other(manifest: &Path, out: &Path, name: Option<&str>) -> Result<()> {
    let manifest = std::path::absolute(manifest)?;
    let build = Build::of(&workspace(Some(&manifest))?);
    build.fetch()?;
    let manifest_path = manifest.display().to_string();
    let mut arguments = vec!["--manifest-path", manifest_path.as_str()];
    arguments.extend(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    let core = build.core(&arguments)?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => core
            .file_stem()
            .map(|stem| stem.to_string_lossy().replace('_', "-"))
            .context("a file has a name")?,
    };
    component::write(&read(&core)?, &out.join(format!("{name}.wasm")), None)
}

/// The WebAssembly file of one of cargo's messages.
fn artifact(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.get("reason")? != "compiler-artifact" {
        return None;
    }
    let files = message.get("filenames")?.as_array()?.iter();
    files
        .filter_map(Value::as_str)
        .map(PathBuf::from)
        .find(|file| {
            file.extension()
                .is_some_and(|extension| extension == "wasm")
        })
}

/// The folders in a folder, which need not be there; sorted.
fn folders(parent: &Path) -> Result<Vec<PathBuf>> {
    if !parent.exists() {
        return Ok(Vec::new());
    }
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        folders.push(entry?.path());
    }
    folders.sort();
    Ok(folders)
}

/// `CARGO_HOME`, or what cargo takes without it.
pub fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::home_dir().context("no home folder: set CARGO_HOME")?;
    Ok(home.join(".cargo"))
}

fn sysroot(workspace: &Path) -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(workspace)
        .output()
        .context("cannot run rustc")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wasm_artifacts_count() {
        let line = |reason: &str, file: &str| {
            format!(r#"{{"reason":"{reason}","filenames":["/t/lib.rlib","{file}"]}}"#)
        };
        let wasm = artifact(&line("compiler-artifact", "/t/a.wasm"));
        assert_eq!(wasm, Some(PathBuf::from("/t/a.wasm")));
        assert_eq!(artifact(&line("compiler-artifact", "/t/a.so")), None);
        assert_eq!(artifact(&line("build-finished", "/t/a.wasm")), None);
        assert_eq!(artifact("not json"), None);
    }
}
