//! The concurrent store of input objects.
//!
//! The store holds one immutable [`Snapshot`]. A commit builds the next one (it shares all that did
//! not change) and publishes it by compare-and-swap, so readers never lock and always see a whole
//! commit. What changed is told to one [`ChangeFeed`].

mod feed;
pub(crate) mod identity;
mod mailbox;
mod object;
mod primitives;
mod published;
mod selection;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;

pub use feed::{ChangeFeed, Changes};
pub use identity::{Identity, Key, Named, Parts};
pub use mailbox::Mailbox;
pub use object::{Labels, Object, Origin};
pub use selection::Handle;
pub use snapshot::{Diff, Difference, Snapshot, Told};
pub use text::Text;

use chiton_ir::GroupKind;
use published::Published;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// One change of a commit.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object is there, in this form.
    Put(Arc<Object>),
    /// The object is gone.
    Delete(Key),
    /// The first list of the kind has arrived: what is not there is absent, not unknown.
    Synced(GroupKind),
}

/// The store. Cheap to share in an [`Arc`].
#[derive(Debug, Default)]
pub struct Store {
    current: Published<Snapshot>,
    feed: ChangeFeed,
    commits: watch::Sender<u64>,
}

impl Store {
    /// An empty store in which no kind is synced.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load()
    }

    /// Commits all changes at once. A `Put` whose content is what is there already, and a `Delete`
    /// of what is not there, change nothing and are not told to the feed.
    pub fn commit(&self, changes: &[Change]) {
        let at = Instant::now();
        let told = self.current.update(|snapshot| {
            let mut next = snapshot.clone();
            let told = next.apply(changes);
            (next, told)
        });
        if told.is_empty() {
            return;
        }
        self.feed.push(told, at);
        self.commits.send_modify(|commits| *commits += 1);
    }

    /// The number of commits that changed something. For those who look at the whole snapshot when
    /// it has changed; what has changed is in the feed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// What has changed since it was last asked. There is one reader: the pipeline.
    #[must_use]
    pub fn feed(&self) -> &ChangeFeed {
        &self.feed
    }
}
