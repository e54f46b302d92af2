//! Which files a folder tree holds.

use super::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Deepest folder that is entered. Links cannot make a loop, but a tree can be silly.
const MAX_DEPTH: usize = 64;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file was changed within the last `span`. The time of change is the kernel's: no
    /// program can set it.
    pub fn is_younger_than(&self, span: Duration) -> bool {
        let (Ok(seconds), Ok(nanos)) =
            (u64::try_from(self.changed.0), u32::try_from(self.changed.1))
        else {
            return false;
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age < span)
    }
}

/// A file that may hold manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path relative to the root, as a person would say it.
    pub path: PathBuf,
    /// Path without links.
    pub real: PathBuf,
    /// State when it was found.
    pub stamp: Stamp,
}

/// One look through a tree.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Files by path.
    pub files: BTreeMap<PathBuf, Found>,
    /// Folders, without links, in which a change may matter.
    pub folders: BTreeSet<PathBuf>,
    /// Folders and files that could not be looked at: what was under them is unknown, not gone.
    pub blocked: Vec<Problem>,
    /// Links and where they pointed: if one points elsewhere after files were read, the files may
    /// be of two states.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Scan {
    /// Looks through a tree.
    pub fn of(root: &Path) -> Self {
        let mut walk = Walk {
            root: root.to_owned(),
            scan: Self::default(),
            seen: BTreeSet::new(),
        };
        walk.note_link(root);
        walk.folder(Path::new(""), 0);
        walk.scan
    }

    /// Whether there are links.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// Whether all links point where they did.
    pub fn links_are_current(&self) -> bool {
        self.links
            .iter()
            .all(|(link, target)| fs::read_link(link).is_ok_and(|now| now == *target))
    }
}

/// Whether a file of this name may hold manifests.
pub fn is_manifest(name: &OsStr) -> bool {
    !is_hidden(name)
        && Path::new(name).extension().is_some_and(|extension| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|known| extension.eq_ignore_ascii_case(known))
        })
}

/// Hidden files, `..data` folders, and the backups and locks of editors.
pub fn is_hidden(name: &OsStr) -> bool {
    matches!(name.as_encoded_bytes().first(), Some(b'.' | b'~' | b'#'))
}

struct Walk {
    root: PathBuf,
    scan: Scan,
    /// Device and inode of what was visited: each real file and folder is read once, so links
    /// cannot make loops.
    seen: BTreeSet<(u64, u64)>,
}

impl Walk {
    fn folder(&mut self, path: &Path, depth: usize) {
        let full = self.root.join(path);
        let listed = fs::metadata(&full).and_then(|metadata| {
            let real = fs::canonicalize(&full)?;
            let entries: Vec<DirEntry> = fs::read_dir(&full)?.collect::<Result<_, _>>()?;
            Ok((metadata, real, entries))
        });
        let (metadata, real, mut entries) = match listed {
            Ok(listed) => listed,
            // A folder that went while it was looked at is like one that was not there.
            Err(error) if error.kind() == ErrorKind::NotFound && depth > 0 => return,
            Err(error) => return self.block(path, &error.to_string()),
        };
        if !self.seen.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        if depth > MAX_DEPTH {
            return self.block(path, "is nested too deeply");
        }
        entries.sort_by_cached_key(DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if name == "..data" {
                self.note_link(&full.join(&name));
            }
            if !is_hidden(&name) {
                self.entry(path.join(&name), &entry, &real, depth);
            }
        }
        self.scan.folders.insert(real);
    }

    /// An entry of the folder that really is `folder`.
    fn entry(&mut self, path: PathBuf, entry: &DirEntry, folder: &Path, depth: usize) {
        let found = entry.metadata().and_then(|metadata| {
            if metadata.is_symlink() {
                self.follow(&entry.path())
            } else {
                Ok((folder.join(entry.file_name()), metadata))
            }
        });
        let name = entry.file_name();
        let (real, metadata) = match found {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                if is_manifest(&name) {
                    self.block(&path, &error.to_string());
                }
                return;
            }
        };
        if metadata.is_dir() {
            return self.folder(&path, depth + 1);
        }
        if !is_manifest(&name) {
            return;
        }
        if !metadata.is_file() {
            // Reading a pipe or a device could wait for ever.
            return self.block(&path, "is not a regular file");
        }
        if !self.seen.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        if let Some(parent) = real.parent().filter(|parent| *parent != folder) {
            self.scan.folders.insert(parent.to_owned());
        }
        let found = Found {
            path: path.clone(),
            real,
            stamp: Stamp::of(&metadata),
        };
        self.scan.files.insert(path, found);
    }

    /// What a link leads to.
    fn follow(&mut self, link: &Path) -> std::io::Result<(PathBuf, Metadata)> {
        self.note_link(link);
        let metadata = fs::metadata(link)?;
        Ok((fs::canonicalize(link)?, metadata))
    }

    fn block(&mut self, path: &Path, reason: &str) {
        self.scan.blocked.push(Problem::new(
            path,
            format!("cannot be read ({reason}); objects that were read there before are kept"),
            "make it readable, or remove it",
        ));
    }

    fn note_link(&mut self, path: &Path) {
        if let Ok(target) = fs::read_link(path) {
            self.scan.links.push((path.to_owned(), target));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    fn paths(scan: &Scan) -> Vec<&str> {
        scan.files
            .keys()
            .map(|path| path.to_str().unwrap())
            .collect()
    }

    #[test]
    fn only_manifests_are_found_in_order() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/.git")).unwrap();
        for name in [
            "z.yaml",
            "b/a.YML",
            "c.json",
            ".hidden.yaml",
            "a.yaml~",
            "#a.yaml#",
            "~a.yaml",
            ".#a.yaml",
            "a.yaml.swp",
            "b/.git/x.yaml",
            "README.md",
            "4913",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(
            paths(&Scan::of(dir.path())),
            ["b/a.YML", "c.json", "z.yaml"]
        );
    }

    #[test]
    fn loops_end_and_nothing_is_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("m")).unwrap();
        fs::write(dir.path().join("m/a.yaml"), "").unwrap();
        symlink(dir.path(), dir.path().join("m/loop")).unwrap();
        symlink("m", dir.path().join("n")).unwrap();
        symlink("m/a.yaml", dir.path().join("z.yaml")).unwrap();
        symlink("self.yaml", dir.path().join("self.yaml")).unwrap();
        symlink("nowhere.yaml", dir.path().join("dangling.yaml")).unwrap();
        assert_eq!(paths(&Scan::of(dir.path())), ["m/a.yaml"]);
    }

    #[test]
    fn a_link_out_of_the_tree_is_followed_and_its_folder_watched() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("x.yaml"), "").unwrap();
        symlink(other.path().join("x.yaml"), dir.path().join("a.yaml")).unwrap();
        let scan = Scan::of(dir.path());
        assert_eq!(paths(&scan), ["a.yaml"]);
        assert!(scan.folders.contains(&other.path().canonicalize().unwrap()));
        assert!(scan.links_are_current());
        fs::remove_file(dir.path().join("a.yaml")).unwrap();
        assert!(!scan.links_are_current());
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&dir.path().join("a.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let scan = Scan::of(dir.path());
        assert!(scan.files.is_empty());
        assert_eq!(scan.blocked.len(), 1);
    }

    #[test]
    fn a_missing_root_is_blocked_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        let scan = Scan::of(&dir.path().join("gone"));
        assert_eq!(scan.blocked.len(), 1);
    }
}
