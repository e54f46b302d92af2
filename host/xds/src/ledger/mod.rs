//! Which client was sent what, and what it said: the ledger behind "programmed".
//!
//! The rows themselves are part of each stream's session; the ledger knows the sessions of all
//! connected clients and asks them. An answer costs the number of resources asked about times the
//! number of the group's clients, whatever else they have.

mod left;
mod summary;

use crate::rows::Verdict;
use crate::session::{Clusters, Session};
use crate::{ResourceName, ResourceType};
use left::Left;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use tokio::sync::watch;

pub use summary::{
    Expected, NackSummary, Possession, Programmed, ProxySummary, Rejection, RejectionEvent,
    TypeSummary,
};

/// Rejections that can still be asked for.
const REMEMBERED: usize = 10_000;

/// The connected proxies and what they acknowledged.
#[derive(Debug, Default)]
pub struct Ledger {
    groups: Mutex<HashMap<String, Vec<Arc<Proxy>>>>,
    changes: watch::Sender<u64>,
    rejections: Mutex<VecDeque<RejectionEvent>>,
    left: Mutex<Left>,
}

impl Ledger {
    /// All connected proxies, by group, node and time of connection.
    #[must_use]
    pub fn proxies(&self) -> Vec<ProxySummary> {
        let proxies: Vec<_> = self.lock().values().flatten().cloned().collect();
        let mut summaries: Vec<_> = proxies.iter().map(|proxy| proxy.summary()).collect();
        summaries.sort_by(|a, b| {
            (&a.group, &a.node, a.since, &a.address).cmp(&(&b.group, &b.node, b.since, &b.address))
        });
        summaries
    }

    /// Whether all proxies of the group have acknowledged all these versions. With no resources to
    /// acknowledge, whether there is a proxy that was in sync. A client that names the listeners that
    /// it wants, as gRPC does, counts for what it asked for only. A rejection outweighs what is
    /// pending; of several the first in the order of `expected` is told.
    #[must_use]
    pub fn programmed(&self, group: &str, expected: &[Expected]) -> Programmed {
        let proxies = self.group(group);
        if proxies.is_empty() {
            return Programmed::NoProxy;
        }
        let mut synced = 0;
        let mut pending = false;
        let mut anybody_has = vec![false; expected.len()];
        for proxy in proxies {
            let session = proxy.session();
            if !session.is_synced() {
                continue;
            }
            synced += 1;
            for (Expected { name, version }, has) in expected.iter().zip(&mut anybody_has) {
                match session.verdict(name.kind, &name.name, version) {
                    Verdict::Unconcerned => {}
                    Verdict::Acked => *has = true,
                    Verdict::Pending => pending = true,
                    Verdict::Nacked(nack) => {
                        return Programmed::Nacked {
                            name: name.clone(),
                            text: nack.text.clone(),
                        };
                    }
                }
            }
        }
        if synced == 0 || pending || anybody_has.contains(&false) {
            return Programmed::Pending;
        }
        Programmed::Acked
    }

    /// What connected proxies of the group reject, by name and version. Only what was found to be
    /// rejected for its own sake, not what was in one response with it. The cost is the number of
    /// rejections; ask again when [`Ledger::changes`] says so.
    #[must_use]
    pub fn rejections(&self, group: &str) -> Vec<Rejection> {
        let mut found: BTreeMap<(ResourceName, String), (SystemTime, Rejection)> = BTreeMap::new();
        for proxy in self.group(group) {
            let session = proxy.session();
            for kind in ResourceType::ALL {
                for (name, nack) in session.rows(kind).nacks() {
                    let name = ResourceName::new(kind, &**name);
                    let version = nack.version.to_string();
                    let (at, rejection) = found
                        .entry((name.clone(), version.clone()))
                        .or_insert_with(|| {
                            let text = nack.text.clone();
                            let proxies = 0;
                            (
                                nack.at,
                                Rejection {
                                    name,
                                    version,
                                    text,
                                    proxies,
                                },
                            )
                        });
                    rejection.proxies += 1;
                    if nack.at < *at {
                        *at = nack.at;
                        rejection.text.clone_from(&nack.text);
                    }
                }
            }
        }
        found
            .into_values()
            .map(|(_, rejection)| rejection)
            .collect()
    }

    /// Rejections that came in after the one of this number (0: all), oldest first; of those that
    /// are long ago only the last 10,000. A rejection may have been followed by anything since: this
    /// is for those who must not miss one, [`Ledger::programmed`] says how things stand now.
    #[must_use]
    pub fn rejections_since(&self, number: u64) -> Vec<RejectionEvent> {
        let rejections = self
            .rejections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let news = rejections.iter().rev();
        let mut news: Vec<_> = news.take_while(|it| it.number > number).cloned().collect();
        news.reverse();
        news
    }

    /// What the group's proxies have of a resource: one entry for each that was sent it, or brought
    /// it along.
    #[must_use]
    pub fn possessions(&self, group: &str, name: &ResourceName) -> Vec<Possession> {
        let proxies = self.group(group);
        let possession = |proxy: &Arc<Proxy>| {
            let session = proxy.session();
            let row = session.rows(name.kind).get(&name.name)?;
            Some(Possession {
                sent: row.sent.clone(),
                accepted: row.acked.clone(),
                rejected: row.nack.is_some(),
                synced: session.is_synced(),
            })
        };
        proxies.iter().filter_map(possession).collect()
    }

    /// Whether all proxies of the group have accepted all that they were sent up to a publish, and
    /// there is a proxy.
    pub(crate) fn is_settled(&self, group: &str, generation: u64) -> bool {
        let proxies = self.group(group);
        !proxies.is_empty() && proxies.iter().all(|it| it.session().is_settled(generation))
    }

    /// A number that grows with everything that may change an answer of this ledger.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn connect(&self, proxy: &Arc<Proxy>) {
        self.lock()
            .entry(proxy.group.clone())
            .or_default()
            .push(proxy.clone());
        self.changed();
    }

    pub(crate) fn disconnect(&self, proxy: &Arc<Proxy>) {
        let mut groups = self.lock();
        if let Some(proxies) = groups.get_mut(&proxy.group) {
            proxies.retain(|other| !Arc::ptr_eq(other, proxy));
            if proxies.is_empty() {
                groups.remove(&proxy.group);
            }
        }
        drop(groups);
        if let Some(clusters) = proxy.session().clusters() {
            let now = Instant::now();
            self.left()
                .put(&proxy.group, &proxy.node, clusters.clone(), now);
        }
        self.changed();
    }

    /// The clusters that a client of this name had on its last stream, as far as that matters.
    pub(crate) fn clusters_of(&self, group: &str, node: &str) -> Clusters {
        // That the last stream has ended is sometimes noticed late.
        let streams = self.group(group).into_iter().rev();
        streams
            .filter(|proxy| proxy.node == node)
            .find_map(|proxy| proxy.session().clusters().cloned())
            .or_else(|| self.left().take(group, node, Instant::now()))
            .unwrap_or_default()
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a rejection.
    pub(crate) fn note_rejection(
        &self,
        proxy: &Proxy,
        (kind, name, version): &(ResourceType, Arc<str>, Arc<str>),
        text: &str,
    ) {
        tracing::debug!(
            group = proxy.group, node = proxy.node, %kind, %name, %version, text,
            "a proxy rejected a resource: it keeps the form before"
        );
        let mut rejections = self
            .rejections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if rejections.len() >= REMEMBERED {
            rejections.pop_front();
        }
        let number = rejections.back().map_or(1, |last| last.number + 1);
        rejections.push_back(RejectionEvent {
            number,
            group: proxy.group.clone(),
            name: ResourceName::new(*kind, &**name),
            version: version.clone(),
            text: text.to_owned(),
        });
    }

    fn group(&self, group: &str) -> Vec<Arc<Proxy>> {
        self.lock().get(group).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Proxy>>>> {
        // No code that could panic runs while it is held.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One stream's client.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub node: String,
    pub group: String,
    address: String,
    since: u64,
    last_seen: AtomicU64,
    session: Mutex<Session>,
}

impl Proxy {
    pub fn new(node: String, group: String, address: String, session: Session) -> Self {
        let now = unix_seconds(SystemTime::now());
        Self {
            node,
            group,
            address,
            since: now,
            last_seen: AtomicU64::new(now),
            session: Mutex::new(session),
        }
    }

    pub fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn seen(&self) {
        self.last_seen
            .store(unix_seconds(SystemTime::now()), Ordering::Relaxed);
    }

    fn summary(&self) -> ProxySummary {
        let session = self.session();
        let mut types = BTreeMap::new();
        let mut nacks = Vec::new();
        for kind in session.requested() {
            let rows = session.rows(kind);
            let counts = TypeSummary {
                sent: rows.len(),
                acked: rows.acked(),
                nacked: rows.nacked(),
            };
            types.insert(kind, counts);
            nacks.extend(rows.nacks().map(|(name, nack)| {
                NackSummary {
                    name: ResourceName::new(kind, &**name),
                    version: nack.version.to_string(),
                    accepted_version: rows
                        .get(name)
                        .and_then(|row| row.acked.as_ref())
                        .map(ToString::to_string),
                    text: nack.text.clone(),
                    at: unix_seconds(nack.at),
                }
            }));
        }
        ProxySummary {
            node: self.node.clone(),
            group: self.group.clone(),
            address: self.address.clone(),
            since: self.since,
            last_seen: self.last_seen.load(Ordering::Relaxed),
            synced: session.is_synced(),
            types,
            nacks,
        }
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
