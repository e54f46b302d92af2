//! Build steps that cargo alone does not do: components from guests, CRDs from types.
//!
//! Every step works on the workspace of the current folder.

mod component;
mod crds;
mod guests;
mod reproducible;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Builds the built-in reconcilers into target/guests, or another module into a folder.
    Guests {
        /// Manifest of a crate with a module, instead of the built-in ones.
        #[arg(long, requires = "out")]
        manifest_path: Option<PathBuf>,
        /// Folder for the components.
        #[arg(long)]
        out: Option<PathBuf>,
        /// File name without `.wasm`; the package's name unless given.
        #[arg(long, requires = "manifest_path")]
        name: Option<String>,
    },
    /// Makes a component of a core module that was built with chiton-guest.
    Componentize {
        /// Core module.
        core: PathBuf,
        /// Component.
        out: PathBuf,
    },
    /// Writes the CRDs of chiton.dev into deploy/crds.
    Crds {
        /// Fails if they are not current, instead of writing.
        #[arg(long)]
        check: bool,
    },
    /// Builds the built-in reconcilers here and from a copy in another folder, with another
    /// `CARGO_HOME`, and fails unless the bytes are the same.
    Reproducible,
}

fn main() -> Result<()> {
    let workspace = workspace(None)?;
    match Arguments::parse().step {
        Step::Guests {
            manifest_path: Some(manifest),
            out: Some(out),
            name,
        } => guests::build_other(&manifest, &out, name.as_deref()),
        Step::Guests { out, .. } => {
            let out = out.unwrap_or_else(|| workspace.join("target/guests"));
            guests::Build::of(&workspace).all(&out)
        }
        Step::Componentize { core, out } => component::write(&read(&core)?, &out, None),
        Step::Crds { check } => crds::run(&workspace.join("deploy/crds"), check),
        Step::Reproducible => reproducible::run(&workspace),
    }
}

/// The workspace of a manifest, or of the current folder. Not a path from compile time: one target
/// folder may serve several work trees.
fn workspace(manifest: Option<&Path>) -> Result<PathBuf> {
    let mut command = Command::new(cargo());
    command.args(["locate-project", "--workspace", "--message-format", "plain"]);
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "no cargo workspace here: run this in the repository"
    );
    let manifest = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    Ok(manifest
        .parent()
        .context("a manifest has a folder")?
        .to_owned())
}

/// The cargo that runs this, so that toolchains do not mix.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
