//! What the kernel told about the tree, folded.

use super::scan::is_manifest;
use notify::event::{AccessKind, AccessMode, Event, EventKind, ModifyKind};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Most paths that are remembered for their watches. A watch that is lost all the same costs the time
/// to the next look.
const MAX_MOVED: usize = 4096;

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
    /// The whole tree: names came or went.
    pub all: bool,
    /// Files, by their path without links. Bounded by the number of files of the watched folders.
    pub files: BTreeMap<PathBuf, Touch>,
    /// Paths, not of files, that came or went: watches on them and below may be lost.
    pub moved: Vec<PathBuf>,
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
        !self.all && self.files.is_empty()
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
        self.all |= names;
        for path in event.paths {
            if path.file_name().is_some_and(is_manifest) {
                if let Some(touch) = touch {
                    self.files.insert(path, touch);
                }
            } else if names && self.moved.len() < MAX_MOVED {
                self.moved.push(path);
            }
        }
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
    fn names_that_come_wake_everything() {
        let mut wake = Wake::default();
        wake.add(event(EventKind::Create(CreateKind::Folder), "/x"));
        assert!(wake.all);
    }
}
