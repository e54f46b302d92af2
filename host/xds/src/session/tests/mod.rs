//! Each rule of the protocol, in delta, with and without VHDS, and in the state of the world, on a
//! session without I/O. Sections are those of
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod inlined;
mod model;
mod order;
mod rejections;
mod sotw;
mod sotw_rejections;
mod subscriptions;
mod virtual_hosts;

use super::*;
use crate::ResourceType::{Cluster, Endpoints, Listener, RouteConfiguration, Secret, VirtualHost};
use crate::{Change, Resource, ResourceName, version_of};
use envoy_types::pb::envoy::config::route::v3 as route;
use prost::Message as _;

const DELTA: Dialect = Dialect {
    sotw: false,
    inline: false,
};
const DELTA_WITHOUT_VHDS: Dialect = Dialect {
    sotw: false,
    inline: true,
};
const STATE_OF_THE_WORLD: Dialect = Dialect {
    sotw: true,
    inline: true,
};

const TWO_ROUTE_CONFIGS: [(ResourceType, &str); 5] = [
    (RouteConfiguration, "a=1"),
    (RouteConfiguration, "b=1"),
    (VirtualHost, "a/x=1"),
    (VirtualHost, "a/y=1"),
    (VirtualHost, "b/x=1"),
];

/// A session, the snapshot that it should be told of next, and a clock.
struct Client {
    snapshot: Snapshot,
    session: Session,
    now: Instant,
}

impl Client {
    /// A client that connects to a ready group with these resources, written `name=content`.
    fn connect(resources: &[(ResourceType, &str)]) -> Self {
        Self::connect_with(Limits::default(), DELTA, resources)
    }

    fn connect_as(dialect: Dialect, resources: &[(ResourceType, &str)]) -> Self {
        Self::connect_with(Limits::default(), dialect, resources)
    }

    fn connect_with(limits: Limits, dialect: Dialect, resources: &[(ResourceType, &str)]) -> Self {
        let mut snapshot = Snapshot::empty(true);
        snapshot.apply(
            resources
                .iter()
                .map(|(kind, text)| put(*kind, text))
                .collect(),
        );
        let now = Instant::now();
        let session = Session::new(limits, dialect, Arc::new(snapshot.clone()), now);
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
            (name.to_owned(), version_of(&body(kind, name, content)))
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

    /// A request of the state of the world: all names, and the nonce of the newest response.
    fn state(&mut self, kind: ResourceType, names: &[&str], nonce: &str) -> Vec<String> {
        self.state_request(kind, names, nonce, None)
    }

    fn state_nack(
        &mut self,
        kind: ResourceType,
        names: &[&str],
        nonce: &str,
        error: &str,
    ) -> Vec<String> {
        self.state_request(kind, names, nonce, Some(error))
    }

    fn state_request(
        &mut self,
        kind: ResourceType,
        names: &[&str],
        nonce: &str,
        error: Option<&str>,
    ) -> Vec<String> {
        let request = StateRequest {
            names: names.iter().map(ToString::to_string).collect(),
            nonce: nonce.to_owned(),
            error: error.map(str::to_owned),
            ..StateRequest::default()
        };
        self.session.on_state_request(kind, request);
        self.poll()
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
        let version = version_of(&body(kind, name, content));
        match self.session.verdict(kind, name, &version) {
            Verdict::Unconcerned => "unconcerned".to_owned(),
            Verdict::Pending => "pending".to_owned(),
            Verdict::Acked => "acked".to_owned(),
            Verdict::Nacked(nack) => nack.text.clone(),
        }
    }
}

fn put(kind: ResourceType, text: &str) -> Change {
    let (name, content) = text.split_once('=').unwrap();
    Change::Put(Resource::new(kind, name, body(kind, name, content)))
}

/// A body that says the content. Those of route configurations and virtual hosts are messages, so
/// that one can be put into the other.
fn body(kind: ResourceType, name: &str, content: &str) -> Vec<u8> {
    match kind {
        RouteConfiguration => route::RouteConfiguration {
            name: name.to_owned(),
            internal_only_headers: vec![content.to_owned()],
            vhds: Some(route::Vhds::default()),
            ..route::RouteConfiguration::default()
        }
        .encode_to_vec(),
        VirtualHost => route::VirtualHost {
            name: name.to_owned(),
            domains: vec![content.to_owned()],
            ..route::VirtualHost::default()
        }
        .encode_to_vec(),
        _ => content.as_bytes().to_vec(),
    }
}

/// What a body says; of a route configuration with virtual hosts `1(r/x=1 r/y=1)`.
fn content(kind: ResourceType, body: &[u8]) -> String {
    match kind {
        RouteConfiguration => {
            let message = route::RouteConfiguration::decode(body).unwrap();
            let mut text = message.internal_only_headers.concat();
            if message.vhds.is_none() {
                let hosts = message.virtual_hosts.iter();
                let hosts: Vec<_> = hosts
                    .map(|host| format!("{}={}", host.name, host.domains.concat()))
                    .collect();
                text = format!("{text}({})", hosts.join(" "));
            }
            text
        }
        VirtualHost => {
            let message = route::VirtualHost::decode(body).unwrap();
            message.domains.concat()
        }
        _ => String::from_utf8(body.to_vec()).unwrap(),
    }
}

fn text(response: &Response) -> String {
    let mut text = response.kind.to_string();
    for entry in &response.resources {
        let content = content(response.kind, &entry.body);
        text = format!("{text} {}={content}", entry.name);
    }
    for name in &response.removed {
        text = format!("{text} -{name}");
    }
    format!("{text} #{}", response.nonce)
}

const NOTHING: [String; 0] = [];
