//! What a client of the state of the world has from its last stream.
//!
//! In delta a client that returns says what it has. Here it cannot, and what is not in the first
//! response of clusters is gone from it at once, though its routes may still lead there. So the
//! clusters that it had accepted on its last stream, and that are not there any more, are in the
//! responses until nothing refers to them (`order`).

use super::Session;
use crate::ResourceType;
use crate::snapshot::Entry;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clusters in the forms that a client accepted last.
pub(crate) type Clusters = BTreeMap<Arc<str>, Arc<Entry>>;

impl Session {
    /// The clusters that the client has, if it cannot say so on its next stream.
    pub fn clusters(&self) -> Option<&Clusters> {
        let clusters = &self.subscriptions[ResourceType::Cluster];
        // A stream that has not come that far does not know what the client has.
        let says = self.dialect.sotw && clusters.accepted;
        says.then_some(&clusters.forms)
    }

    /// These are the clusters that a client of this name had on its last stream. They count if it says
    /// that it has been here before.
    pub fn had(&mut self, clusters: Clusters) {
        if self.dialect.sotw {
            self.had = clusters;
        }
    }

    /// A client that was told nothing yet on this stream has what went in the meantime.
    pub(super) fn note_gone_cluster(&mut self, entry: &Arc<Entry>) {
        if self.dialect.sotw && self.subscriptions[ResourceType::Cluster].nonce.is_empty() {
            let name = entry.name.clone();
            self.had.entry(name).or_insert_with(|| entry.clone());
        }
    }

    /// Before the first response of clusters: what the client has and is gone leaves in good order.
    pub(super) fn recall_clusters(&mut self) {
        let kind = ResourceType::Cluster;
        let had = std::mem::take(&mut self.had);
        if !self.returned {
            return;
        }
        for (name, entry) in had {
            if self.snapshot.get(kind, &name).is_none() && self.covers(kind, &name) {
                self.has(kind, Some(&entry));
                self.mark(kind, name, false);
            }
        }
    }
}
