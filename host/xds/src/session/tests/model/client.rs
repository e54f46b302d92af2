//! The client of the model.

use super::super::*;
use super::{Item, Step};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

type Has = BTreeMap<String, String>;

/// As Envoy: a changed cluster loses its endpoints; virtual hosts without their route configuration
/// are dropped; a removed route configuration is kept until no listener needs it; a rejected
/// response changes nothing, or all but the culprits, whose names it says. In the state of the world it
/// drops clusters and listeners that are missing, and ignores those that have not changed.
pub(super) struct Model {
    dialect: Dialect,
    /// It says the names of rejected clusters and listeners, and takes the others.
    names_culprits: bool,
    /// Of the newest response of each type.
    nonces: HashMap<ResourceType, String>,
    snapshot: Snapshot,
    session: Session,
    now: Instant,
    inbox: VecDeque<Response>,
    has: HashMap<ResourceType, Has>,
    /// Versions by name, as they are repeated at the next connection.
    versions: HashMap<ResourceType, Has>,
    route_configs: BTreeSet<String>,
    clusters: BTreeSet<String>,
    asked_for_virtual_hosts: bool,
}

pub(super) const BAD: &str = "bad";

impl Model {
    pub fn new(dialect: Dialect, names_culprits: bool) -> Self {
        let now = Instant::now();
        let snapshot = Snapshot::empty(true);
        let session = Session::new(Limits::default(), dialect, Arc::new(snapshot.clone()), now);
        let mut model = Self {
            dialect,
            names_culprits,
            nonces: HashMap::new(),
            snapshot,
            session,
            now,
            inbox: VecDeque::new(),
            has: HashMap::new(),
            versions: HashMap::new(),
            route_configs: BTreeSet::new(),
            clusters: BTreeSet::new(),
            asked_for_virtual_hosts: false,
        };
        model.connect();
        model
    }

    fn has(&mut self, kind: ResourceType) -> &mut Has {
        self.has.entry(kind).or_default()
    }

    fn poll(&mut self) {
        let responses = self.session.poll(self.now);
        self.inbox.extend(responses);
    }

    fn request(&mut self, kind: ResourceType, request: Request) {
        self.session.on_request(kind, request);
        self.poll();
    }

    /// A request that says everything, as those of the state of the world do.
    fn state(&mut self, kind: ResourceType, error: Option<String>) {
        let names = match kind {
            Endpoints => self.clusters.iter().cloned().collect(),
            RouteConfiguration => self.route_configs.iter().cloned().collect(),
            _ => Vec::new(),
        };
        let nonce = self.nonces.get(&kind).cloned().unwrap_or_default();
        let request = StateRequest {
            names,
            version: String::new(),
            nonce,
            error,
        };
        self.session.on_state_request(kind, request);
        self.poll();
    }

    fn subscribe(&mut self, kind: ResourceType, names: &BTreeSet<String>, first: bool) {
        if self.dialect.sotw {
            return self.state(kind, None);
        }
        let versions = self.versions.entry(kind).or_default();
        let initial_versions = if first { versions.clone() } else { Has::new() };
        let request = Request {
            subscribe: names.iter().cloned().collect(),
            initial_versions: initial_versions.into_iter().collect(),
            ..Request::default()
        };
        self.request(kind, request);
    }

    fn unsubscribe(&mut self, kind: ResourceType, name: &str) {
        self.has(kind).remove(name);
        self.versions.entry(kind).or_default().remove(name);
        if self.dialect.sotw {
            return self.state(kind, None);
        }
        let request = Request {
            unsubscribe: vec![name.to_owned()],
            ..Request::default()
        };
        self.request(kind, request);
    }

    fn connect(&mut self) {
        self.inbox.clear();
        self.nonces.clear();
        let snapshot = Arc::new(self.snapshot.clone());
        self.session = Session::new(Limits::default(), self.dialect, snapshot, self.now);
        let none = BTreeSet::new();
        self.subscribe(Cluster, &none, true);
        if !self.clusters.is_empty() {
            self.subscribe(Endpoints, &self.clusters.clone(), true);
        }
        self.subscribe(Listener, &none, true);
        if !self.route_configs.is_empty() {
            self.subscribe(RouteConfiguration, &self.route_configs.clone(), true);
        }
        if self.asked_for_virtual_hosts {
            // Envoy would claim those of route configurations that it dropped just before, too;
            // nothing is promised for that if it loses its connection once more at once.
            let route_configs = self.has(RouteConfiguration).clone();
            self.versions
                .entry(VirtualHost)
                .or_default()
                .retain(|name, _| route_configs.contains_key(name.split_once('/').unwrap().0));
            self.subscribe(VirtualHost, &none, true);
        }
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Publish(changes) => {
                let changes = changes
                    .into_iter()
                    .map(|Item(kind, name, content)| match content {
                        Some(content) => put(kind, &format!("{name}={content}")),
                        None => Change::Remove(ResourceName::new(kind, name)),
                    });
                self.snapshot.apply(changes.collect());
                self.session.update(Arc::new(self.snapshot.clone()));
                self.poll();
            }
            Step::Answer => self.answer(),
            Step::Wait(milliseconds) => {
                self.now += Duration::from_millis(milliseconds);
                self.poll();
            }
            Step::Reconnect => self.connect(),
        }
    }

    fn answer(&mut self) {
        let Some(response) = self.inbox.pop_front() else {
            return;
        };
        let kind = response.kind;
        self.nonces.insert(kind, response.nonce.clone());
        let (bad, good): (Vec<_>, Vec<_>) = response
            .resources
            .iter()
            .cloned()
            .partition(|entry| content(kind, &entry.body).contains(BAD));
        let mut text = "refused".to_owned();
        let named = self.names_culprits && matches!(kind, Cluster | Listener);
        if bad.is_empty() || named {
            self.drop_missing(&response);
            self.take(&Response {
                resources: good,
                ..response.clone()
            });
        }
        if named {
            text.extend(bad.iter().flat_map(|entry| [" ", &*entry.name]));
        }
        let error = (!bad.is_empty()).then_some(text);
        if self.dialect.sotw {
            return self.state(kind, error);
        }
        let request = Request {
            nonce: response.nonce,
            error,
            ..Request::default()
        };
        self.request(kind, request);
    }

    /// In the state of the world clusters and listeners that are missing are gone.
    fn drop_missing(&mut self, response: &Response) {
        let kind = response.kind;
        if self.dialect.sotw && matches!(kind, Cluster | Listener) {
            let stays =
                |name: &String| response.resources.iter().any(|entry| *entry.name == **name);
            self.has(kind).retain(|name, _| stays(name));
        }
    }

    fn take(&mut self, response: &Response) {
        let kind = response.kind;
        for name in &response.removed {
            self.versions.entry(kind).or_default().remove(&**name);
            // Envoy ignores the removal of a route configuration.
            if kind != RouteConfiguration {
                self.has(kind).remove(&**name);
            }
        }
        for entry in &response.resources {
            let content = content(kind, &entry.body);
            let (name, version) = (entry.name.to_string(), entry.version.to_string());
            let wanted = match kind {
                Endpoints => self.clusters.contains(&name),
                RouteConfiguration => self.route_configs.contains(&name),
                _ => true,
            };
            if !wanted {
                continue;
            }
            let dropped = kind == VirtualHost
                && !name.split_once('/').is_some_and(|(route_config, _)| {
                    self.has(RouteConfiguration).contains_key(route_config)
                });
            if dropped {
                // Envoy would claim to have it. If it drops a route configuration, asks for it
                // again and loses its connection, all while a virtual host is on its way, a server
                // cannot know better; nothing is promised for that.
                continue;
            }
            if self.dialect.inline && kind == RouteConfiguration {
                self.take_virtual_hosts(&name, &entry.body);
            }
            let before = self.has(kind).insert(name.clone(), content.clone());
            let is_unchanged = self.dialect.sotw && before == Some(content);
            if kind == Cluster && !is_unchanged {
                // So here: it would claim to have the endpoints that the new cluster waits for.
                self.has(Endpoints).remove(&name);
                self.versions.entry(Endpoints).or_default().remove(&name);
            }
            let versions = self.versions.entry(kind).or_default();
            versions.insert(name, version);
        }
        match kind {
            Cluster => self.follow_clusters(),
            Listener => self.follow_listeners(),
            RouteConfiguration if !self.dialect.inline && !self.asked_for_virtual_hosts => {
                self.asked_for_virtual_hosts = true;
                self.subscribe(VirtualHost, &BTreeSet::new(), true);
            }
            _ => {}
        }
    }

    /// Virtual hosts come in their route configuration, and replace those before.
    fn take_virtual_hosts(&mut self, route_config: &str, body: &[u8]) {
        let prefix = format!("{route_config}/");
        let message = route::RouteConfiguration::decode(body).unwrap();
        let has = self.has(VirtualHost);
        has.retain(|name, _| !name.starts_with(&prefix));
        let hosts = message.virtual_hosts.into_iter();
        has.extend(hosts.map(|host| (host.name, host.domains.concat())));
    }

    fn follow_clusters(&mut self) {
        let wanted: BTreeSet<String> = self.has(Cluster).keys().cloned().collect();
        let before = std::mem::replace(&mut self.clusters, wanted.clone());
        let first = before.is_empty();
        let new: BTreeSet<String> = wanted.difference(&before).cloned().collect();
        if !new.is_empty() {
            self.subscribe(Endpoints, &new, first);
        }
        for name in before.difference(&wanted) {
            self.unsubscribe(Endpoints, name);
        }
    }

    fn follow_listeners(&mut self) {
        let listeners = self.has(Listener);
        let wanted: BTreeSet<String> = listeners
            .values()
            .filter_map(|content| Some(content.split_once(':')?.0.to_owned()))
            .collect();
        let before = std::mem::replace(&mut self.route_configs, wanted.clone());
        for name in before.difference(&wanted) {
            self.unsubscribe(RouteConfiguration, name);
            self.has(VirtualHost)
                .retain(|host, _| !host.starts_with(&format!("{name}/")));
        }
        let new: BTreeSet<String> = wanted.difference(&before).cloned().collect();
        if !new.is_empty() {
            self.subscribe(RouteConfiguration, &new, false);
        }
    }

    /// Answers everything and lets all clocks run out.
    pub fn settle(&mut self) {
        for _ in 0..1_000 {
            if self.inbox.is_empty() {
                self.step(Step::Wait(20_000));
                if self.inbox.is_empty() {
                    assert_eq!(self.session.deadline(self.now), None);
                    return;
                }
            }
            self.answer();
        }
        panic!("it never ends: {:?}", self.inbox);
    }

    /// What the client should have of a type, without what it would refuse.
    fn expected(&self, kind: ResourceType) -> Has {
        let has = |kind| self.has.get(&kind).cloned().unwrap_or_default();
        let (clusters, route_configs) = (has(Cluster), has(RouteConfiguration));
        self.snapshot
            .all(kind)
            .map(|entry| (entry.name.to_string(), content(kind, &entry.body)))
            .filter(|(name, _)| match kind {
                Endpoints => clusters.contains_key(name),
                RouteConfiguration => self.route_configs.contains(name),
                VirtualHost => name.split_once('/').is_some_and(|(route_config, _)| {
                    route_configs.contains_key(route_config)
                        && self
                            .snapshot
                            .get(RouteConfiguration, route_config)
                            .is_some()
                }),
                _ => true,
            })
            .collect()
    }

    /// Whether the route configuration, or that of a virtual host, is there and good. What is not
    /// serves nobody, or in an earlier form: its virtual hosts do not matter.
    fn matters(&self, kind: ResourceType, name: &str) -> bool {
        let route_config = match kind {
            RouteConfiguration => name,
            VirtualHost => name.split_once('/').unwrap().0,
            _ => return true,
        };
        let entry = self.snapshot.get(RouteConfiguration, route_config);
        entry.is_some_and(|entry| content(RouteConfiguration, &entry.body) != BAD)
    }

    pub fn check(&mut self) {
        for kind in [
            Cluster,
            Endpoints,
            Listener,
            RouteConfiguration,
            VirtualHost,
        ] {
            let mut expected = self.expected(kind);
            let mut has = self.has(kind).clone();
            if kind == RouteConfiguration && self.dialect.inline {
                // What is in it is compared as virtual hosts.
                for content in has.values_mut() {
                    content.truncate(content.find('(').unwrap());
                }
            }
            if kind == Endpoints && self.dialect.sotw {
                // That they are gone cannot be told.
                has.retain(|name, _| self.snapshot.get(kind, name).is_some());
            }
            // Of what it refuses it may have any earlier form.
            has.retain(|name, _| {
                !expected
                    .get(name)
                    .is_some_and(|content| content.ends_with(BAD))
            });
            expected.retain(|_, content| !content.ends_with(BAD));
            has.retain(|name, _| self.matters(kind, name));
            expected.retain(|name, _| self.matters(kind, name));
            assert_eq!(has, expected, "{kind}");
        }
    }
}
