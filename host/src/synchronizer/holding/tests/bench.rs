//! A laboratory with a holder and proxies. A proxy refuses a resource whose bytes hold the word
//! `evil`; a test may have it refuse others too.

use super::super::{Holder, Notice, Proxies};
use crate::store::Key;
use crate::synchronizer::holding::AcceptedForms;
use crate::synchronizer::tests::lab::{Lab, absorb, options};
use crate::synchronizer::tests::make::{at, http, route, rule};
use crate::synchronizer::{Delta, Synchronizer, everything};
use chiton_xds::{Possession, RejectionEvent, Resource, ResourceName, ResourceType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// What a resource is refused for, if it is.
type Refuses = fn(&Resource) -> bool;

/// What one proxy has of a resource.
#[derive(Clone, Debug, Default)]
struct Row {
    sent: Arc<str>,
    accepted: Option<Arc<str>>,
    rejected: bool,
}

/// A connected proxy.
#[derive(Debug, Default)]
pub struct Proxy {
    rows: BTreeMap<ResourceName, Row>,
    /// What it is to be sent.
    dirty: BTreeSet<ResourceName>,
    /// What it was sent and has not answered.
    asked: Vec<Resource>,
    /// It refuses what others do not.
    strict: bool,
}

/// The proxies of the default fleet, and what they should have.
#[derive(Debug)]
pub struct Fleet {
    published: BTreeMap<ResourceName, Resource>,
    pub proxies: Vec<Proxy>,
    pub rejections: Vec<RejectionEvent>,
    refuses: Refuses,
}

impl Fleet {
    fn publish(&mut self, delta: &Delta) {
        for change in delta.resources.get("default").into_iter().flatten() {
            let name = change.name().clone();
            change.clone().apply(&mut self.published);
            for proxy in &mut self.proxies {
                proxy.dirty.insert(name.clone());
            }
        }
    }

    /// Sends one proxy one resource; false if there is nothing to send.
    pub fn send(&mut self, proxy: usize, index: usize) -> bool {
        let proxy = &mut self.proxies[proxy];
        let waits = |name: &&ResourceName| !proxy.asked.iter().any(|it| it.name == **name);
        let names: Vec<_> = proxy.dirty.iter().filter(waits).cloned().collect();
        let Some(name) = names.get(index % names.len().max(1)) else {
            return false;
        };
        proxy.dirty.remove(name);
        let Some(resource) = self.published.get(name) else {
            proxy.rows.remove(name);
            return true;
        };
        let version: Arc<str> = resource.version.as_str().into();
        let row = proxy.rows.entry(name.clone()).or_default();
        if row.sent == version {
            return true;
        }
        row.accepted.take_if(|accepted| *accepted == version);
        row.sent = version;
        row.rejected = false;
        proxy.asked.push(resource.clone());
        true
    }

    /// Has one proxy answer something; false if it was not asked.
    pub fn reply(&mut self, proxy: usize, index: usize) -> bool {
        let it = &mut self.proxies[proxy];
        if it.asked.is_empty() {
            return false;
        }
        let resource = it.asked.swap_remove(index % it.asked.len());
        let is_bad = resource.body.windows(4).any(|part| part == b"evil")
            || (self.refuses)(&resource)
            || (it.strict && resource.body.windows(6).any(|part| part == b"strict"));
        let version: Arc<str> = resource.version.as_str().into();
        let row = it.rows.get_mut(&resource.name);
        let row = row.filter(|row| row.sent == version);
        if is_bad {
            if let Some(row) = row {
                row.rejected = true;
            }
            self.rejections.push(RejectionEvent {
                number: self.rejections.len() as u64 + 1,
                group: "default".into(),
                name: resource.name,
                version,
                text: format!("proxy {proxy} says no"),
            });
        } else if let Some(row) = row {
            row.accepted = Some(version);
        }
        true
    }
}

impl Proxies for Fleet {
    fn rejections_since(&self, number: u64) -> Vec<RejectionEvent> {
        self.rejections[usize::try_from(number).unwrap()..].to_vec()
    }

    fn possessions(&self, _: &str, name: &ResourceName) -> Vec<Possession> {
        let rows = self.proxies.iter().filter_map(|proxy| proxy.rows.get(name));
        rows.map(|row| Possession {
            sent: row.sent.clone(),
            accepted: row.accepted.clone(),
            rejected: row.rejected,
            synced: true,
        })
        .collect()
    }

    fn is_connected(&self, _: &str) -> bool {
        !self.proxies.is_empty()
    }

    fn is_settled(&self, _: &str) -> bool {
        let has_all = |proxy: &Proxy| {
            let rows = proxy.rows.values();
            let accepted = |row: &Row| row.accepted.as_ref() == Some(&row.sent);
            proxy.dirty.is_empty() && proxy.asked.is_empty() && rows.into_iter().all(accepted)
        };
        self.is_connected("") && self.proxies.iter().all(has_all)
    }
}

/// See the module.
pub struct Bench {
    pub lab: Lab,
    pub holder: Holder,
    pub fleet: Fleet,
    /// Publishes so far that changed something.
    pub publishes: usize,
    notices: BTreeMap<Key, Notice>,
    now: Instant,
}

impl Bench {
    /// A Gateway `gw` with a listener `web`, a Service `s`, and a proxy.
    pub fn new() -> Self {
        let mut lab = Lab::default();
        lab.gateway("gw", vec![http("web", 80, None)]);
        lab.service("s");
        let mut bench = Self {
            lab,
            holder: holder(AcceptedForms::default()),
            fleet: Fleet {
                published: BTreeMap::new(),
                proxies: vec![Proxy::default()],
                rejections: Vec::new(),
                refuses: |_| false,
            },
            publishes: 0,
            notices: BTreeMap::new(),
            now: Instant::now(),
        };
        bench.settle();
        bench
    }

    /// Connects another proxy. A strict one refuses what holds the word `strict` too.
    pub fn connect(&mut self, strict: bool) {
        self.fleet.proxies.push(Proxy {
            dirty: self.fleet.published.keys().cloned().collect(),
            strict,
            ..Proxy::default()
        });
    }

    /// Has proxies refuse what they would not.
    pub fn refuse(&mut self, refuses: Refuses) {
        self.fleet.refuses = refuses;
    }

    /// Puts a route on the host `h.example`, with a path.
    pub fn route(&mut self, name: &str, path: &str) -> Key {
        self.route_on("h.example", name, path)
    }

    /// Puts a route.
    pub fn route_on(&mut self, host: &str, name: &str, path: &str) -> Key {
        let parents = vec![at("gw", "web", &[host])];
        self.lab.route(name, route(parents, vec![rule(path, "s")]))
    }

    /// Takes what was put, and publishes.
    pub fn apply(&mut self) {
        let batch = self.lab.batch();
        let delta = self.holder.apply(&batch, &self.fleet, self.now);
        self.publish(&delta);
        self.holder.start();
        self.listen();
    }

    /// Takes what proxies have said, and publishes.
    pub fn listen(&mut self) {
        while let Some(delta) = self.holder.answer(&self.fleet, self.now) {
            self.publish(&delta);
        }
        if let Some(notices) = self.holder.take_notices() {
            self.notices = notices;
        }
    }

    fn publish(&mut self, delta: &Delta) {
        self.publishes += usize::from(!delta.resources.is_empty());
        self.fleet.publish(delta);
    }

    /// Everything is published, sent and answered. Then what is published is what a fresh start
    /// makes of what is shown, and no proxy refuses anything of it.
    pub fn settle(&mut self) {
        self.apply();
        for _ in 0..10_000 {
            let mut busy = false;
            for proxy in 0..self.fleet.proxies.len() {
                while self.fleet.send(proxy, 0) {
                    busy = true;
                }
                while self.fleet.reply(proxy, 0) {
                    busy = true;
                }
            }
            self.listen();
            if !busy {
                self.check();
                return;
            }
        }
        panic!("the search does not end");
    }

    fn check(&self) {
        let mut fresh = Synchronizer::new(options());
        let mut proxies = BTreeMap::new();
        absorb(&mut proxies, &fresh.apply(&everything(self.holder.shown())));
        let served = proxies.remove("default").unwrap_or_default();
        assert!(self.fleet.published == served, "a fresh start differs");
    }

    /// Names of the held objects.
    pub fn held(&self) -> Vec<String> {
        let held = self
            .notices
            .iter()
            .filter(|(_, it)| it.reason == "Rejected");
        held.map(|(key, _)| key.name.to_string()).collect()
    }

    /// What status says of an object.
    pub fn said(&self, key: &Key) -> &str {
        self.notices.get(key).map_or("", |notice| &notice.message)
    }

    /// Whether the published virtual host `h.example` holds a text.
    pub fn serves(&self, text: &str) -> bool {
        self.published(ResourceType::VirtualHost, "http-80/h.example", text)
    }

    /// Whether a published resource holds a text.
    pub fn published(&self, kind: ResourceType, name: &str, text: &str) -> bool {
        let resource = self.fleet.published.get(&ResourceName::new(kind, name));
        resource.is_some_and(|resource| {
            let mut parts = resource.body.windows(text.len());
            parts.any(|part| part == text.as_bytes())
        })
    }

    /// Another host takes over, with what the first one saved or without. Proxies stay.
    pub fn restart(&mut self, saved: AcceptedForms) {
        self.holder = holder(saved);
        self.lab.forget_batches();
        self.fleet.rejections.clear();
        self.notices.clear();
    }
}

/// Modules whose name begins with `closed` fail closed.
fn holder(saved: AcceptedForms) -> Holder {
    let synchronizer = Synchronizer::new(options());
    Holder::new(synchronizer, |module| module.starts_with("closed"), saved)
}
