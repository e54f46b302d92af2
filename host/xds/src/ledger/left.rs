//! What clients had that are not there now.

use crate::session::Clusters;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Clients that are remembered.
const REMEMBERED: usize = 256;

/// How long.
const FOR: Duration = Duration::from_mins(5);

/// The clusters of clients of the state of the world whose streams ended, oldest first.
#[derive(Debug, Default)]
pub(super) struct Left(VecDeque<Client>);

#[derive(Debug)]
struct Client {
    group: String,
    node: String,
    clusters: Clusters,
    at: Instant,
}

impl Left {
    /// A client left.
    pub fn put(&mut self, group: &str, node: &str, clusters: Clusters, now: Instant) {
        self.take(group, node, now);
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Client {
            group: group.to_owned(),
            node: node.to_owned(),
            clusters,
            at: now,
        });
    }

    /// A client is back.
    pub fn take(&mut self, group: &str, node: &str, now: Instant) -> Option<Clusters> {
        self.0.retain(|client| now < client.at + FOR);
        let found = self
            .0
            .iter()
            .position(|client| client.group == group && client.node == node)?;
        self.0.remove(found).map(|client| client.clusters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_clients_are_remembered_for_so_long_and_once() {
        let (mut left, now) = (Left::default(), Instant::now());
        for number in 0..=REMEMBERED {
            left.put("g", &number.to_string(), Clusters::new(), now);
        }
        assert!(left.take("g", "0", now).is_none());
        assert!(left.take("h", "1", now).is_none());
        assert!(left.take("g", "1", now).is_some());
        assert!(left.take("g", "1", now).is_none());
        assert!(left.take("g", "2", now + FOR).is_none() && left.0.is_empty());
    }
}
