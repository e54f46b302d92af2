//! The same source in two folders gives the same components.

use crate::component::sha256;
use crate::guests::{Build, cargo_home};
use crate::read;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What of `CARGO_HOME` a build needs.
const CARGO_HOME_PARTS: [&str; 4] = ["registry", "git", "config.toml", "config"];

/// What is not source.
const NOT_SOURCE: [&str; 2] = ["target", ".git"];

/// Builds here and elsewhere, and compares.
pub fn run(workspace: &Path) -> Result<()> {
    let scratch = Scratch::new()?;
    let here = scratch.0.join("here");
    Build::of(workspace).all(&here)?;

    let copy = scratch.0.join("a copy in a folder of another length");
    copy_sources(workspace, &copy)?;
    let home = scratch.0.join("cargo-home");
    link_cargo_home(&home)?;
    let there = scratch.0.join("there");
    Build::of(&copy)
        .elsewhere(scratch.0.join("other-target"), home)
        .all(&there)?;

    let (here, there) = (digests(&here)?, digests(&there)?);
    let different: Vec<&String> = here
        .iter()
        .filter(|(name, digest)| there.get(*name) != Some(digest))
        .map(|(name, _)| name)
        .collect();
    if !different.is_empty() || here.len() != there.len() {
        bail!("built from a copy in another folder these differ: {different:?}");
    }
    println!("{} components are the same from two folders", here.len());
    Ok(())
}

/// A folder that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("chiton-reproducible-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if NOT_SOURCE.iter().any(|other| name == *other) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_sources(&entry.path(), &to.join(name))?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// A `CARGO_HOME` of another path with the same packages.
#[cfg(unix)]
fn link_cargo_home(to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let from = cargo_home()?;
    for part in CARGO_HOME_PARTS {
        if from.join(part).exists() {
            std::os::unix::fs::symlink(from.join(part), to.join(part))?;
        }
    }
    Ok(())
}

fn digests(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        digests.insert(name.into_owned(), sha256(&read(&path)?));
    }
    Ok(digests)
}
