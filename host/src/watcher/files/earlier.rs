//! What files held before a restart, for those that are broken when the tree is first looked at.

use super::Problem;
use super::object::Contents;
use crate::store::Object;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The last good objects of files, from an earlier host. They are asked for when the first file is
/// found broken, which mostly none is.
#[derive(Default)]
pub struct Earlier {
    ask: Option<Box<dyn FnOnce() -> Vec<Object> + Send>>,
    files: BTreeMap<PathBuf, Contents>,
}

impl Earlier {
    /// `ask` gives the objects with their origins, those of one file in order. A Secret need not have
    /// its content: it is said to be missing.
    pub fn new(ask: impl FnOnce() -> Vec<Object> + Send + 'static) -> Self {
        Self {
            ask: Some(Box::new(ask)),
            files: BTreeMap::new(),
        }
    }

    /// Whether there was an earlier host.
    pub(super) fn exists(&self) -> bool {
        self.ask.is_some() || !self.files.is_empty()
    }

    /// What a file held.
    pub(super) fn take(&mut self, path: &Path) -> Contents {
        self.load();
        self.files.remove(path).unwrap_or_default()
    }

    /// What the files in a folder held, or the file of that name.
    pub(super) fn take_below(&mut self, folder: &Path) -> Vec<(PathBuf, Contents)> {
        self.load();
        let below = |path: &PathBuf| path.starts_with(folder);
        let paths: Vec<PathBuf> = self.files.keys().filter(|it| below(it)).cloned().collect();
        paths
            .into_iter()
            .filter_map(|path| self.files.remove_entry(&path))
            .collect()
    }

    fn load(&mut self) {
        let objects = self.ask.take().map(|ask| ask()).unwrap_or_default();
        for object in objects {
            let Some(origin) = object.origin.clone() else {
                continue;
            };
            let contents = self.files.entry(origin.path.to_path_buf()).or_default();
            let problem = |reason: &str, advice: &str| {
                Problem::new(&origin.path, reason, advice)
                    .at(origin.line)
                    .of(&object.key)
            };
            if object.key.is("", "Secret") {
                contents.problems.push(problem(
                    "is missing since the restart: the content of Secrets is nowhere saved",
                    "correct the file",
                ));
                continue;
            }
            if let Some(reason) = &object.problem {
                contents.problems.push(problem(reason, ""));
            }
            contents.objects.push(Arc::new(object));
        }
    }
}

impl fmt::Debug for Earlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Earlier")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
