//! The folder tree as it stands, and how it gets from one state to the next.
//!
//! A plain state machine: [`Tree::refresh`] is given what to look at and the time, reads what
//! changed, and returns the changes for the store. Nothing here waits.
//!
//! One name that comes or goes costs a look at that name, not at the tree, unless it may mean more
//! ([`Named::Unclear`]).

use super::claims::{Claim, Claims};
use super::earlier::Earlier;
use super::look::{Look, Looked, look, look_at_all};
use super::object::Contents;
use super::problem::Problem;
use super::scan::{Found, Scan, Stamp, is_hidden, is_manifest};
use super::wake::{Touch, Wake};
use super::{DELETE_GRACE, REPORT_AFTER, SETTLE, WRITING_LIMIT};
use crate::store::{Change, Key, Object};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Looks through the tree in one go, if links keep changing under it.
const MAX_LOOKS: usize = 5;

/// What is known of one file.
#[derive(Debug, Default)]
struct FileState {
    /// State of the file when it was last read.
    stamp: Option<Stamp>,
    /// What it held when it was last good.
    good: Contents,
    /// Objects that it no longer holds, and since when.
    leaving: BTreeMap<Key, (Arc<Object>, Instant)>,
    /// Why its newest content is not used, and when that is to be reported.
    unusable: Option<Box<(Problem, Instant)>>,
    /// Since when it is gone.
    missing: Option<Instant>,
}

impl FileState {
    fn claims(&self) -> Vec<Claim> {
        let missing = self.missing.is_some();
        let held = self.good.objects.iter().map(|object| Claim {
            object: object.clone(),
            leaving: missing,
        });
        let leaving = self.leaving.values().map(|(object, _)| Claim {
            object: object.clone(),
            leaving: true,
        });
        held.chain(leaving).collect()
    }

    /// Whether it has good objects.
    fn holds(&self) -> bool {
        !self.good.objects.is_empty()
    }

    /// The file holds this now. Objects that are not in it any more get their grace.
    fn take(&mut self, new: Contents, now: Instant) {
        for object in std::mem::take(&mut self.good).objects {
            self.leaving.insert(object.key.clone(), (object, now));
        }
        for object in &new.objects {
            self.leaving.remove(&object.key);
        }
        self.good = new;
        self.unusable = None;
    }

    /// Its newest content cannot be used. A fault that follows another is reported with it.
    fn refuse(&mut self, problem: Problem, report_at: Instant) {
        let report_at = self
            .unusable
            .as_ref()
            .map_or(report_at, |earlier| earlier.1);
        self.unusable = Some(Box::new((problem, report_at)));
    }

    /// When, after `now`, something about the file changes by itself.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let missing = self.missing.map(|since| since + DELETE_GRACE);
        let leaving = self
            .leaving
            .values()
            .map(|(_, since)| *since + DELETE_GRACE);
        let report = self.unusable.as_ref().map(|fault| fault.1);
        leaving
            .chain(missing)
            .chain(report)
            .filter(|at| *at > now)
            .min()
    }
}

/// The tree.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: BTreeMap<PathBuf, FileState>,
    /// Where there are links: files by their path without links.
    by_real: BTreeMap<PathBuf, Found>,
    /// Files that somebody is writing, by real path, and until when they are left alone.
    writing: BTreeMap<PathBuf, Instant>,
    /// Files of which something changes by itself, and when.
    timed: BTreeMap<PathBuf, Instant>,
    folders: BTreeSet<PathBuf>,
    /// The root without links, if there are no links below it either and all could be read: then a
    /// name says where it is.
    plain_root: Option<PathBuf>,
    blocked: Vec<Problem>,
    /// Problems of files, by path; those without are not there.
    problems: BTreeMap<PathBuf, Vec<Problem>>,
    claims: Claims,
    /// What files held before a restart; nothing after the first look.
    earlier: Earlier,
    loaded: bool,
}

impl Tree {
    /// A tree that has not been looked at.
    pub fn new(root: PathBuf, earlier: Earlier) -> Self {
        Self {
            root,
            files: BTreeMap::new(),
            by_real: BTreeMap::new(),
            writing: BTreeMap::new(),
            timed: BTreeMap::new(),
            folders: BTreeSet::new(),
            plain_root: None,
            blocked: Vec::new(),
            problems: BTreeMap::new(),
            claims: Claims::default(),
            earlier,
            loaded: false,
        }
    }

    /// Looks at what the wake says and at what is due by now. Returns what changed, to be committed
    /// at once.
    pub fn refresh(&mut self, wake: &Wake, now: Instant) -> Vec<Change> {
        let forced = self.note_writers(wake, now);
        if wake.all || !self.look_at(wake, &forced, now) {
            self.look_through(&forced, now);
        }
        self.expire(now);
        self.earlier = Earlier::default();
        self.loaded = true;
        self.claims.settle()
    }

    /// When [`Tree::refresh`] has something to do though nothing was told.
    pub fn deadline(&self) -> Option<Instant> {
        self.writing
            .values()
            .chain(self.timed.values())
            .min()
            .copied()
    }

    /// Folders whose changes matter, without links.
    pub fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }

    /// Every object that stands, sorted by key.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.claims.served()
    }

    /// Everything that is wrong, sorted by path and line.
    pub fn problems(&self) -> Vec<Problem> {
        let mut all: Vec<Problem> = self
            .problems
            .values()
            .flatten()
            .chain(&self.blocked)
            .chain(self.claims.duplicates())
            .cloned()
            .collect();
        all.sort();
        all
    }

    /// Who is writing what. Returns the files to read whatever their stamp says.
    fn note_writers(&mut self, wake: &Wake, now: Instant) -> BTreeSet<PathBuf> {
        let mut forced = BTreeSet::new();
        for (real, touch) in &wake.files {
            match touch {
                Touch::Writing => {
                    self.writing.insert(real.clone(), now + WRITING_LIMIT);
                }
                Touch::Done => {
                    self.writing.remove(real);
                    forced.insert(real.clone());
                }
            }
        }
        self.writing.retain(|real, until| {
            let over = *until <= now;
            if over {
                forced.insert(real.clone());
            }
            !over
        });
        forced
    }

    /// Looks at single files. False, and nothing is done, if that is not enough.
    fn look_at(&mut self, wake: &Wake, forced: &BTreeSet<PathBuf>, now: Instant) -> bool {
        let touched = wake.files.keys().chain(forced);
        let names: BTreeSet<&PathBuf> = touched.chain(&wake.names).collect();
        let mut there = Vec::new();
        let mut gone = Vec::new();
        for real in names {
            match self.named(real, wake.names.contains(real)) {
                Named::File(found) => there.push(found),
                Named::Gone(path) => gone.push((real, path)),
                Named::Nothing => {}
                Named::Unclear => return false,
            }
        }
        for (real, path) in gone {
            self.writing.remove(real);
            self.miss(&path, now);
        }
        for found in there {
            self.visit(&found, None, forced.contains(&found.real), now);
        }
        true
    }

    /// What stands now at a path without links that was touched, or that came or went.
    fn named(&self, real: &Path, came_or_went: bool) -> Named {
        let Some(root) = &self.plain_root else {
            return match self.by_real.get(real) {
                Some(found) if !came_or_went => Named::File(found.clone()),
                _ => Named::Unclear,
            };
        };
        let (Ok(path), Some(name), Some(folder)) =
            (real.strip_prefix(root), real.file_name(), real.parent())
        else {
            return Named::Unclear;
        };
        if !self.folders.contains(folder) || name == "..data" {
            return Named::Unclear;
        }
        if is_hidden(name) {
            return Named::Nothing;
        }
        match std::fs::symlink_metadata(real) {
            Ok(metadata) if metadata.is_file() && !is_manifest(name) => Named::Nothing,
            Ok(metadata) if metadata.is_file() && metadata.nlink() == 1 => Named::File(Found {
                path: path.to_owned(),
                real: real.to_owned(),
                stamp: Stamp::of(&metadata),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let known = self.files.get(path);
                if self.folders.contains(real) {
                    Named::Unclear
                } else if known.is_some_and(|state| state.missing.is_none()) {
                    Named::Gone(path.to_owned())
                } else {
                    Named::Nothing
                }
            }
            _ => Named::Unclear,
        }
    }

    /// Looks at the whole tree, until links point to the same places before and after.
    fn look_through(&mut self, forced: &BTreeSet<PathBuf>, now: Instant) {
        for _ in 0..MAX_LOOKS {
            let scan = Scan::of(&self.root);
            let found: Vec<&Found> = scan.files.values().collect();
            // After an earlier host proxies are given what it served meanwhile, which takes the other
            // cores.
            let looks = if self.loaded || self.earlier.exists() {
                Vec::new()
            } else {
                look_at_all(&found)
            };
            let mut looks = looks.into_iter();
            for found in found {
                self.visit(found, looks.next(), forced.contains(&found.real), now);
            }
            self.note_missing(&scan, now);
            self.recall_blocked(&scan, now);
            let current = scan.links_are_current();
            let links = scan.has_links();
            self.plain_root = if links || !scan.blocked.is_empty() {
                None
            } else {
                self.root.canonicalize().ok()
            };
            self.forget_writers(&scan);
            let files = scan.files.into_values();
            self.by_real = files
                .filter(|_| self.plain_root.is_none())
                .map(|found| (found.real.clone(), found))
                .collect();
            self.folders = scan.folders;
            self.blocked = scan.blocked;
            if current {
                break;
            }
        }
    }

    /// Nobody is writing files that are not there any more.
    fn forget_writers(&mut self, scan: &Scan) {
        if !self.writing.is_empty() {
            let known: HashSet<&PathBuf> = scan.files.values().map(|found| &found.real).collect();
            self.writing.retain(|real, _| known.contains(real));
        }
    }

    fn note_missing(&mut self, scan: &Scan, now: Instant) {
        let missing: Vec<PathBuf> = self
            .files
            .iter()
            .filter(|(path, state)| state.missing.is_none() && !scan.files.contains_key(*path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in missing {
            let unknown = scan
                .blocked
                .iter()
                .any(|problem| path.starts_with(&problem.path));
            if !unknown {
                self.miss(&path, now);
            }
        }
    }

    /// What cannot be looked at since the start is what it was before.
    fn recall_blocked(&mut self, scan: &Scan, now: Instant) {
        if self.loaded {
            return;
        }
        for problem in &scan.blocked {
            for (path, good) in self.earlier.take_below(&problem.path) {
                let state = FileState {
                    good,
                    ..FileState::default()
                };
                self.files.entry(path.clone()).or_insert(state);
                self.publish(&path, now);
            }
        }
    }

    fn miss(&mut self, path: &Path, now: Instant) {
        if let Some(state) = self.files.get_mut(path) {
            state.missing.get_or_insert(now);
            self.publish(path, now);
        }
    }

    /// Takes what a file holds if it may have changed and nobody is writing it; reads it unless it was
    /// looked into just now.
    fn visit(&mut self, found: &Found, looked: Option<Looked>, forced: bool, now: Instant) {
        let state = self.files.entry(found.path.clone()).or_default();
        let back = state.missing.take().is_some();
        let changed = forced || state.stamp != Some(found.stamp);
        if changed && !self.is_being_written(found, forced, now) {
            self.read(found, looked, now);
            self.publish(&found.path, now);
        } else if back {
            self.publish(&found.path, now);
        }
    }

    /// A file that changed this moment, without having been closed as far as is known, may be half
    /// written. The first look cannot know, and takes what is there.
    fn is_being_written(&mut self, found: &Found, forced: bool, now: Instant) -> bool {
        if self.writing.contains_key(&found.real) {
            return true;
        }
        let unsettled = self.loaded && !forced && found.stamp.is_younger_than(SETTLE);
        if unsettled {
            self.writing.insert(found.real.clone(), now + SETTLE);
        }
        unsettled
    }

    fn read(&mut self, found: &Found, looked: Option<Looked>, now: Instant) {
        // The first look has nothing to wait for.
        let report_at = if self.loaded { now + REPORT_AFTER } else { now };
        let Some(state) = self.files.get_mut(&found.path) else {
            return;
        };
        let (mut found_in, mut stamp) = looked.unwrap_or_else(|| look(found, state.holds()));
        if !self.loaded && matches!(found_in, Look::Unusable(_) | Look::Blank) {
            state.good = self.earlier.take(&found.path);
            (found_in, stamp) = look(found, state.holds());
        }
        state.stamp = stamp;
        match found_in {
            Look::Good(new) => state.take(new, now),
            Look::Blank if !state.holds() => state.take(Contents::default(), now),
            Look::Blank => {
                let advice = "its last good objects are kept; delete the file to remove them";
                state.refuse(Problem::new(&found.path, "is empty", advice), report_at);
            }
            Look::Unusable(problem) => state.refuse(*problem, report_at),
            Look::Gone => state.missing = Some(now),
        }
    }

    /// Makes claims and problems of a file current.
    fn publish(&mut self, path: &Path, now: Instant) {
        let Some(state) = self.files.get(path) else {
            return;
        };
        self.claims.set(path, state.claims());
        let mut problems = state.good.problems.clone();
        if let Some(fault) = &state.unusable
            && fault.1 <= now
        {
            problems.push(fault.0.clone());
        }
        if problems.is_empty() {
            self.problems.remove(path);
        } else {
            self.problems.insert(path.to_owned(), problems);
        }
        match state.deadline(now) {
            Some(deadline) => self.timed.insert(path.to_owned(), deadline),
            None => self.timed.remove(path),
        };
    }

    /// Applies what is due: deletions whose grace is over, faults that last.
    fn expire(&mut self, now: Instant) {
        let due: Vec<PathBuf> = self
            .timed
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(path, _)| path.clone())
            .collect();
        for path in due {
            let Some(state) = self.files.get_mut(&path) else {
                continue;
            };
            if state
                .missing
                .is_some_and(|since| since + DELETE_GRACE <= now)
            {
                self.files.remove(&path);
                self.problems.remove(&path);
                self.timed.remove(&path);
                self.claims.set(&path, Vec::new());
                continue;
            }
            state
                .leaving
                .retain(|_, (_, since)| *since + DELETE_GRACE > now);
            self.publish(&path, now);
        }
    }
}

/// What a name that came or went stands for.
enum Named {
    /// A file of manifests.
    File(Found),
    /// The file of this path in the tree is gone.
    Gone(PathBuf),
    /// Nothing that is read.
    Nothing,
    /// It may concern more than itself: a folder, a link, a file of several names.
    Unclear,
}
