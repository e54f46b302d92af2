//! The file source: a folder tree of YAML and JSON manifests.
//!
//! [`load`] reads the tree once; [`watch`] reads it and follows it. Both run the same [`tree::Tree`].
//!
//! What is read: every file named `*.yaml`, `*.yml` or `*.json`, in the folder and below it.
//! Names that begin with `.`, `~` or `#` (hidden files, editors' backups, the `..data` folders of
//! mounted `ConfigMap`s) are skipped. Symbolic links are followed; every real file and folder is read
//! once, under the first path in order. A file may hold many documents; `List` kinds are flattened.
//!
//! A file is taken whole or not at all. While it cannot be (it does not parse, is empty, too large,
//! unreadable, or still being written) its last good objects stay, and a [`Problem`] says so. An
//! object that a file no longer holds, or whose file is gone, goes after [`DELETE_GRACE`], so that no
//! way of saving a file makes an object vanish for a moment. A file without any document but with
//! text (all of it commented out) is good and holds nothing. A file that is broken when the tree is first
//! looked at has the objects that it had for the host before ([`Earlier`]), but for Secrets.
//!
//! Two objects of one identity: the first path in order wins, then the first in the file. The other
//! is a [`Problem`], and takes over when the first goes.

mod claims;
mod earlier;
mod follow;
mod kinds;
mod look;
mod names;
mod object;
mod parse;
mod problem;
mod scan;
mod tree;
mod wake;

#[cfg(test)]
mod tests;

pub use earlier::Earlier;
pub use follow::watch;
pub use kinds::{KINDS, Known, synced};
pub use problem::Problem;

use crate::store::Object;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an object stays after its file, or its place in it, is gone. Editors that delete and
/// re-create a file leave a gap of milliseconds; version control that rewrites a tree, tenths of a
/// second.
pub const DELETE_GRACE: Duration = Duration::from_secs(1);

/// How long a file may stay open for writing, counted from its last change, before it is read as it
/// is. Closing it ends the wait at once.
pub const WRITING_LIMIT: Duration = Duration::from_secs(5);

/// A file that is found changed without having been told so is left alone until it has been
/// unchanged for this long.
pub const SETTLE: Duration = Duration::from_millis(100);

/// How long a file must be unusable before it is reported: shorter faults are a way of saving.
pub const REPORT_AFTER: Duration = Duration::from_millis(500);

/// How often the whole tree is looked through, whatever the kernel has told: events can be lost,
/// and some file systems have none.
pub const RESCAN_EVERY: Duration = Duration::from_secs(10);

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The largest object, as JSON in bytes. An API server could not store a larger one: etcd takes
/// requests of 1.5 MiB at most (`--max-request-bytes`), and one that is near that cannot be changed
/// any more, since a change may hold old and new.
pub const MAX_OBJECT_BYTES: usize = 1024 * 1024;

/// The largest `ConfigMap`, as JSON in bytes: etcd's own limit, because the API server allows 1 MiB of
/// *decoded* `binaryData`, which base64 makes a third larger.
pub const MAX_CONFIG_MAP_BYTES: usize = 1024 * 1024 * 3 / 2;

/// What [`load`] found.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Every object, sorted by key; implicit Namespaces included.
    pub objects: Vec<Arc<Object>>,
    /// Everything that is wrong with the files, sorted by path and line.
    pub problems: Vec<Problem>,
}

/// The folder cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot read manifests folder {}: {reason}; give a folder that exists and may be read", path.display())]
pub struct Error {
    path: PathBuf,
    reason: String,
}

/// Reads a folder once.
///
/// Fails only if the folder itself cannot be read.
pub fn load(dir: &Path) -> Result<Loaded, Error> {
    let mut tree = open(dir, Earlier::default())?;
    tree.refresh(&wake::Wake::everything(), Instant::now());
    Ok(Loaded {
        objects: tree.objects().cloned().collect(),
        problems: tree.problems(),
    })
}

/// The objects of one file that is in memory, as a folder would have them; none of a file that does
/// not parse. The path decides between JSON and YAML.
#[must_use]
pub fn parse(path: &Path, bytes: &[u8]) -> Vec<Arc<Object>> {
    parse::documents(path, bytes)
        .map(|documents| object::contents(path, documents).objects)
        .unwrap_or_default()
}

fn open(dir: &Path, earlier: Earlier) -> Result<tree::Tree, Error> {
    let failed = |reason: String| Error {
        path: dir.to_owned(),
        reason,
    };
    std::fs::read_dir(dir).map_err(|error| failed(error.to_string()))?;
    Ok(tree::Tree::new(dir.to_owned(), earlier))
}
