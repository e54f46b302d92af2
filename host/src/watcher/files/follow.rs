//! Following the tree: the kernel's events wake it, a slow look through everything is the safety
//! net.

use super::tree::Tree;
use super::wake::{Wake, Waker};
use super::{Earlier, Error, KINDS, Problem, RESCAN_EVERY, kinds, open};
use crate::store::{Change, Store};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Reads a folder into the store, marks [`KINDS`] and every kind that it holds as synced, and
/// follows the folder until `shutdown`.
///
/// When this returns, the folder has been read and committed; the returned task follows it.
/// `problems` always holds everything that is wrong now, sorted by path and line. Fails only if the
/// folder itself cannot be read; should it vanish later, what it held is kept.
pub async fn watch(
    dir: &Path,
    earlier: Earlier,
    store: Arc<Store>,
    problems: watch::Sender<Vec<Problem>>,
    shutdown: CancellationToken,
) -> Result<JoinHandle<()>, Error> {
    let dir = dir.to_owned();
    let mut follower = blocking(move || {
        Ok(Follower {
            tree: open(&dir, earlier)?,
            watches: Watches::new(),
            store,
            problems,
        })
    })
    .await?;
    follower = blocking(move || {
        follower.load();
        follower
    })
    .await;
    Ok(tokio::spawn(follow(follower, shutdown)))
}

async fn follow(mut follower: Follower, shutdown: CancellationToken) {
    let mut rescan = Instant::now() + RESCAN_EVERY;
    loop {
        let deadline = follower.tree.deadline().map_or(rescan, |at| at.min(rescan));
        let waker = follower.watches.waker.clone();
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = waker.told() => {}
            () = tokio::time::sleep_until(deadline.into()) => {}
        }
        let mut wake = waker.take();
        let now = Instant::now();
        if now >= rescan {
            wake.all = true;
            rescan = now + RESCAN_EVERY;
        }
        follower = blocking(move || {
            follower.refresh(&wake);
            follower
        })
        .await;
    }
}

/// Runs what reads files outside the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}

struct Follower {
    tree: Tree,
    watches: Watches,
    store: Arc<Store>,
    problems: watch::Sender<Vec<Problem>>,
}

impl Follower {
    fn load(&mut self) {
        let mut changes = self.tree.refresh(&Wake::everything(), Instant::now());
        let known = KINDS.iter().map(kinds::Known::group_kind);
        let held = self.tree.objects().map(|object| object.key.group_kind());
        let synced: BTreeSet<_> = known.chain(held).collect();
        changes.extend(kinds::synced(synced));
        self.commit(&changes);
        // Watches come after the look: what changed in between is seen by looking again.
        if self.watches.set(self.tree.folders()) {
            self.refresh(&Wake::everything());
        }
    }

    fn refresh(&mut self, wake: &Wake) {
        self.watches.forget(&wake.names);
        let changes = self.tree.refresh(wake, Instant::now());
        self.commit(&changes);
        // A bounded number of times: what a new folder got before it was watched.
        for _ in 0..3 {
            if !self.watches.set(self.tree.folders()) {
                break;
            }
            let changes = self.tree.refresh(&Wake::everything(), Instant::now());
            self.commit(&changes);
        }
    }

    fn commit(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(object) => tracing::debug!(object = %object.key, "read"),
                Change::Delete(key) => tracing::debug!(object = %key, "gone"),
                Change::Synced(_) => {}
            }
        }
        if !changes.is_empty() {
            self.store.commit(changes);
        }
        let new = self.tree.problems();
        self.problems.send_if_modified(|old| {
            if *old == new {
                return false;
            }
            for problem in new.iter().filter(|problem| !old.contains(problem)) {
                // What is wrong with a file costs all that is in it.
                if problem.object.is_none() {
                    tracing::error!("{problem}");
                } else {
                    tracing::warn!("{problem}");
                }
            }
            *old = new;
            true
        });
    }
}

/// The kernel's watches, one for each folder.
struct Watches {
    waker: Arc<Waker>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    complained: bool,
}

impl Watches {
    fn new() -> Self {
        let waker = Arc::new(Waker::default());
        let teller = waker.clone();
        let watcher = notify::recommended_watcher(move |event| teller.tell(event))
            .inspect_err(|error| {
                tracing::warn!(
                    "cannot watch the manifests folder ({error}); looking through it every {RESCAN_EVERY:?}"
                );
            })
            .ok();
        Self {
            waker,
            watcher,
            watched: BTreeSet::new(),
            complained: false,
        }
    }

    /// The kernel may have dropped the watches on these, or they may hang on folders that were moved
    /// away: the next [`Watches::set`] makes them anew.
    fn forget(&mut self, moved: &BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        self.watched.retain(|folder| {
            let lost = folder.ancestors().any(|path| moved.contains(path));
            if lost {
                // Fails where the kernel was first.
                let _ = watcher.unwatch(folder);
            }
            !lost
        });
    }

    /// Watches these folders and no others. Returns whether there is a new one.
    fn set(&mut self, folders: &BTreeSet<PathBuf>) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        for folder in self.watched.difference(folders) {
            let _ = watcher.unwatch(folder);
        }
        self.watched.retain(|folder| folders.contains(folder));
        let mut new = false;
        for folder in folders {
            if self.watched.contains(folder) {
                continue;
            }
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder.clone());
                    new = true;
                }
                Err(error) if !self.complained => {
                    self.complained = true;
                    tracing::warn!(
                        folder = %folder.display(),
                        "cannot watch a folder ({error}); changes in it are seen every {RESCAN_EVERY:?}"
                    );
                }
                Err(_) => {}
            }
        }
        new
    }
}
