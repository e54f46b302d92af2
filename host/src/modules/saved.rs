//! The bytes of live modules, so that they outlive a restart.
//!
//! After a restart the `ConfigMap` of a module may hold a version that is refused, and then what was
//! live before is nowhere but here: `<sha256>.wasm` and an index, for this user alone.

use crate::sandbox::digest;
use crate::store::Key;
use crate::whole_file;
use chiton_ir::ObjectRef;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

const INDEX: &str = "index.json";

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// The `ConfigMap` that it came from.
    pub source: ObjectRef,
    /// What was live; none: the built-in reconciler.
    #[serde(flatten)]
    pub live: Option<SavedModule>,
    /// The version that came after it, and was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<TakenBack>,
}

/// A saved module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedModule {
    /// Fingerprint of the offer.
    pub fingerprint: String,
    /// Text of its manifest.
    pub manifest: String,
    /// SHA-256 of the component.
    pub digest: String,
}

/// A version that was live and was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TakenBack {
    /// Fingerprint of the offer.
    pub fingerprint: String,
    /// Why.
    pub reason: String,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Saved {
    dir: PathBuf,
    index: Mutex<BTreeMap<String, Entry>>,
}

impl Saved {
    /// Opens the folder; makes it if need be. An index that cannot be read is an empty one.
    pub(super) fn open(dir: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)?;
        let index = match fs::read(dir.join(INDEX)) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(dir = %dir.display(), %error, "the index of saved modules is damaged and ignored: modules whose ConfigMap holds a refused version are not live until it is mended");
                BTreeMap::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            dir,
            index: Mutex::new(index),
        })
    }

    /// What was live under this name, from this `ConfigMap`.
    pub(super) fn entry(&self, name: &str, source: &Key) -> Option<Entry> {
        self.lock()
            .get(name)
            .filter(|entry| entry.source == *source)
            .cloned()
    }

    /// The name of what was live from this `ConfigMap`.
    pub(super) fn name_from(&self, source: &Key) -> Option<String> {
        let index = self.lock();
        let mut entries = index.iter();
        entries
            .find(|(_, entry)| entry.source == **source)
            .map(|(name, _)| name.clone())
    }

    /// The component of a module.
    pub(super) fn bytes(&self, module: &SavedModule) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.component(&module.digest))?;
        if digest(&bytes) == module.digest {
            Ok(bytes)
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the saved component is damaged",
            ))
        }
    }

    /// Saves what went live, with its component.
    pub(super) fn save(&self, name: &str, entry: Entry, bytes: &[u8]) -> io::Result<()> {
        if let Some(module) = &entry.live {
            whole_file::replace(&self.component(&module.digest), |out| out.write_all(bytes))?;
        }
        let mut index = self.lock();
        index.insert(name.to_owned(), entry);
        self.write_index(&index)
    }

    /// The `ConfigMap` of what was live under this name.
    pub(super) fn source(&self, name: &str) -> Option<Key> {
        self.lock().get(name).map(|entry| Key::from(&entry.source))
    }

    /// Forgets what is not to be kept, by name and `ConfigMap`.
    pub(super) fn retain(&self, keep: impl Fn(&str, &ObjectRef) -> bool) -> io::Result<()> {
        let mut index = self.lock();
        let before = index.len();
        index.retain(|name, entry| keep(name, &entry.source));
        if index.len() == before {
            return Ok(());
        }
        self.write_index(&index)
    }

    /// Writes the index first: components without an entry are then removed, never the other way.
    fn write_index(&self, index: &BTreeMap<String, Entry>) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(index)?;
        whole_file::replace(&self.dir.join(INDEX), |out| out.write_all(&text))?;
        let used: BTreeSet<PathBuf> = index
            .values()
            .filter_map(|entry| Some(self.component(&entry.live.as_ref()?.digest)))
            .collect();
        for file in fs::read_dir(&self.dir)? {
            let path = file?.path();
            if path.file_name().is_some_and(|name| name != INDEX) && !used.contains(&path) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn component(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.wasm"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
