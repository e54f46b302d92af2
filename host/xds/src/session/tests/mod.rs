//! Each rule of the delta protocol, and of VHDS over it, on a session without I/O.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod model;
mod order;
mod rejections;
mod subscriptions;
mod virtual_hosts;

use super::*;
use crate::ResourceType::{Cluster, Endpoints, Listener, RouteConfiguration, VirtualHost};
use crate::{Change, Resource, ResourceName, version_of};

/// A session, the snapshot that it should be told of next, and a clock.
struct Client {
    snapshot: Snapshot,
    session: Session,
    now: Instant,
}

impl Client {
    /// A client that connects to a ready group with these resources, written `name=content`.
    fn connect(resources: &[(ResourceType, &str)]) -> Self {
        Self::connect_with(Limits::default(), resources)
    }

    fn connect_with(limits: Limits, resources: &[(ResourceType, &str)]) -> Self {
        let mut snapshot = Snapshot::empty(true);
        snapshot.apply(
            resources
                .iter()
                .map(|(kind, text)| put(*kind, text))
                .collect(),
        );
        let now = Instant::now();
        let session = Session::new(limits, Arc::new(snapshot.clone()), now);
        Self {
            snapshot,
            session,
            now,
        }
    }

    /// Publishes; `-name` removes. Returns what is sent.
    fn publish(&mut self, changes: &[(ResourceType, &str)]) -> Vec<String> {
        let changes = changes
            .iter()
            .map(|(kind, text)| match text.strip_prefix('-') {
                Some(name) => Change::Remove(ResourceName::new(*kind, name)),
                None => put(*kind, text),
            })
            .collect();
        self.snapshot.apply(changes);
        self.session.update(Arc::new(self.snapshot.clone()));
        self.poll()
    }

    /// What is sent now: `Cluster a=1 b=2 -c #nonce`, with contents instead of versions.
    fn poll(&mut self) -> Vec<String> {
        let responses = self.session.poll(self.now);
        responses.iter().map(text).collect()
    }

    fn after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.poll()
    }

    fn request(&mut self, kind: ResourceType, request: Request) -> Vec<String> {
        self.session.on_request(kind, request);
        self.poll()
    }

    /// A first or later request that subscribes to names.
    fn subscribe(&mut self, kind: ResourceType, names: &[&str]) -> Vec<String> {
        self.reconnect(kind, names, &[])
    }

    fn unsubscribe(&mut self, kind: ResourceType, names: &[&str]) -> Vec<String> {
        let unsubscribe = names.iter().map(ToString::to_string).collect();
        self.request(
            kind,
            Request {
                unsubscribe,
                ..Request::default()
            },
        )
    }

    /// A first request of a client that has something already, written `name=content`.
    fn reconnect(&mut self, kind: ResourceType, names: &[&str], has: &[&str]) -> Vec<String> {
        let versions = has.iter().map(|text| {
            let (name, content) = text.split_once('=').unwrap();
            (name.to_owned(), version_of(content.as_bytes()))
        });
        self.request(
            kind,
            Request {
                subscribe: names.iter().map(ToString::to_string).collect(),
                initial_versions: versions.collect(),
                ..Request::default()
            },
        )
    }

    fn ack(&mut self, kind: ResourceType, nonce: u64) -> Vec<String> {
        self.request(
            kind,
            Request {
                nonce: nonce.to_string(),
                ..Request::default()
            },
        )
    }

    fn nack(&mut self, kind: ResourceType, nonce: u64, error: &str) -> Vec<String> {
        self.request(
            kind,
            Request {
                nonce: nonce.to_string(),
                error: Some(error.to_owned()),
                ..Request::default()
            },
        )
    }

    fn verdict(&self, kind: ResourceType, text: &str) -> String {
        let (name, content) = text.split_once('=').unwrap();
        let version = version_of(content.as_bytes());
        match self.session.verdict(kind, name, &version) {
            Verdict::Pending => "pending".to_owned(),
            Verdict::Acked => "acked".to_owned(),
            Verdict::Nacked(nack) => nack.text.clone(),
        }
    }
}

fn put(kind: ResourceType, text: &str) -> Change {
    let (name, content) = text.split_once('=').unwrap();
    Change::Put(Resource::new(kind, name, content.to_owned()))
}

fn text(response: &Response) -> String {
    let mut text = response.kind.to_string();
    for entry in &response.resources {
        let content = std::str::from_utf8(&entry.body).unwrap();
        text = format!("{text} {}={content}", entry.name);
    }
    for name in &response.removed {
        text = format!("{text} -{name}");
    }
    format!("{text} #{}", response.nonce)
}

const NOTHING: [String; 0] = [];
