//! What the kernel told about the tree, folded.

use super::scan::is_manifest;
use notify::event::{AccessKind, AccessMode, Event, EventKind, ModifyKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Most names that are looked at one by one; where more came or went, everything is looked at.
const MAX_NAMES: usize = 4096;

/// What was last told of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Somebody is writing it.
    Writing,
    /// It is whole: whoever wrote it closed it, or it was moved to its place.
    Done,
}

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// The whole tree.
    pub all: bool,
    /// Files, by their path without links. Bounded by the number of files of the watched folders.
    pub files: BTreeMap<PathBuf, Touch>,
    /// Names that came or went, of files and folders, by their path without links. Watches on them
    /// and below may be lost.
    pub names: BTreeSet<PathBuf>,
}

impl Wake {
    /// Look at everything.
    pub fn everything() -> Self {
        Self {
            all: true,
            ..Self::default()
        }
    }

    fn is_empty(&self) -> bool {
        !self.all && self.files.is_empty() && self.names.is_empty()
    }

    fn add(&mut self, event: Event) {
        let (touch, names) = match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => (Some(Touch::Writing), false),
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Metadata(_)) => (Some(Touch::Done), false),
            EventKind::Access(_) => return,
            EventKind::Modify(ModifyKind::Name(_)) => (Some(Touch::Done), true),
            // Created, removed, or the kernel's queue ran over.
            _ => (None, true),
        };
        // What is told without a path may be anywhere.
        self.all |= names && event.paths.is_empty();
        for path in event.paths {
            if let Some(touch) = touch
                && path.file_name().is_some_and(is_manifest)
            {
                self.files.insert(path.clone(), touch);
            }
            if names {
                self.names.insert(path);
            }
        }
        self.all |= self.names.len() > MAX_NAMES;
    }
}

/// Where the kernel's events wait for the follower.
#[derive(Debug, Default)]
pub struct Waker {
    waiting: Mutex<Wake>,
    wake: Notify,
}

impl Waker {
    /// Takes an event in. Never waits.
    pub fn tell(&self, event: notify::Result<Event>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(event) => waiting.add(event),
            Err(error) => {
                tracing::debug!(%error, "lost sight of the manifests folder; looking through it");
                waiting.all = true;
            }
        }
        if !waiting.is_empty() {
            self.wake.notify_one();
        }
    }

    /// All that was told since the last call, perhaps nothing.
    pub fn take(&self) -> Wake {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something is told.
    pub async fn told(&self) {
        self.wake.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange};

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(PathBuf::from(path))
    }

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

    #[test]
    fn the_newest_touch_counts() {
        let mut wake = Wake::default();
        wake.add(event(WRITE, "/a.yaml"));
        wake.add(event(CLOSE, "/a.yaml"));
        wake.add(event(CLOSE, "/b.yaml"));
        wake.add(event(WRITE, "/b.yaml"));
        let touches: Vec<_> = wake.files.into_values().collect();
        assert_eq!(touches, [Touch::Done, Touch::Writing]);
        assert!(!wake.all);
    }

    #[test]
    fn reading_and_other_files_do_not_wake() {
        let mut wake = Wake::default();
        wake.add(event(
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            "/a.yaml",
        ));
        wake.add(event(WRITE, "/.a.yaml.swp"));
        assert!(wake.is_empty());
    }

    #[test]
    fn names_that_come_are_remembered_and_too_many_wake_everything() {
        let mut wake = Wake::default();
        for number in 0..=MAX_NAMES {
            assert!(!wake.all);
            let name = format!("/{number}");
            wake.add(event(EventKind::Create(CreateKind::Folder), &name));
            assert_eq!(wake.names.len(), number + 1);
        }
        assert!(wake.all);
    }

    #[test]
    fn what_is_lost_wakes_everything() {
        let mut wake = Wake::default();
        wake.add(Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan));
        assert!(wake.all);
    }
}
