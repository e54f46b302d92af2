//! Entry point of the fuzz target for requests of clients: it panics only if something is wrong with
//! the server.
#![allow(clippy::missing_panics_doc)]

use crate::session::{Dialect, Limits, Request, Response, Session, StateRequest};
use crate::snapshot::Snapshot;
use crate::stream::{Delta, Protocol as _, StateOfTheWorld};
use crate::{Change, Resource, ResourceName, ResourceType};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use prost::Message as _;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Responses that a client which takes everything may get before nothing is left to send. With these
/// few resources it needs some ten; a loop has no end.
const MOST_RESPONSES: usize = 1_000;

/// A history of one stream: what is published, what its client says, and time. The first byte
/// decides how the client is spoken to; each step begins with a byte that says which it is. In the end
/// the client takes everything, and nothing is left to send.
pub fn discovery(data: &[u8]) {
    let mut bytes = Bytes(data);
    let flags = bytes.next();
    let dialect = Dialect {
        sotw: flags & 1 != 0,
        inline: flags & 3 != 0,
    };
    let mut client = Client::new(dialect);
    while !bytes.0.is_empty() {
        client.step(&mut bytes);
    }
    client.take_everything();
}

/// What is left of the input; zeros after its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn many(&mut self) -> &[u8] {
        let length = usize::from(self.next()).min(self.0.len());
        let (many, rest) = self.0.split_at(length);
        self.0 = rest;
        many
    }

    fn kind(&mut self) -> ResourceType {
        let all = ResourceType::ALL;
        all[usize::from(self.next()) % all.len()]
    }

    /// Few names, so that steps meet: with and without a route configuration's before it.
    fn name(&mut self) -> String {
        match self.next() % 8 {
            n @ 0..4 => format!("r{n}"),
            n => format!("r{}/v{}", n % 2 + 1, n / 2),
        }
    }

    /// Names as a client gives them.
    fn names(&mut self) -> Vec<String> {
        let names = (0..self.next() % 4).map(|_| match self.name() {
            name if name == "r0" => "*".to_owned(),
            name => name,
        });
        names.collect()
    }
}

struct Client {
    dialect: Dialect,
    snapshot: Snapshot,
    session: Session,
    now: Instant,
    inbox: Vec<Response>,
    nonces: HashSet<String>,
}

impl Client {
    fn new(dialect: Dialect) -> Self {
        let now = Instant::now();
        let snapshot = Snapshot::empty(true);
        let session = Session::new(Limits::default(), dialect, Arc::new(snapshot.clone()), now);
        Self {
            dialect,
            snapshot,
            session,
            now,
            inbox: Vec::new(),
            nonces: HashSet::new(),
        }
    }

    fn step(&mut self, bytes: &mut Bytes) {
        match bytes.next() % 6 {
            0 => {
                let (kind, name) = (bytes.kind(), bytes.name());
                let body = bytes.many().to_vec();
                self.publish(Change::Put(Resource::new(kind, name, body)));
            }
            1 => {
                let name = ResourceName::new(bytes.kind(), bytes.name());
                self.publish(Change::Remove(name));
            }
            2 => self.ask(bytes),
            3 => self.ask_in_protobuf(bytes),
            4 => {
                let rejects = bytes.next().is_multiple_of(4);
                self.answer(rejects.then(|| String::from_utf8_lossy(bytes.many()).into_owned()));
            }
            _ => self.now += Duration::from_millis(u64::from(bytes.next()) * 50),
        }
        self.poll();
    }

    fn publish(&mut self, change: Change) {
        self.snapshot.apply(vec![change]);
        self.session.update(Arc::new(self.snapshot.clone()));
    }

    /// Asks for some names, answering nothing, the newest response, or one that never was.
    fn ask(&mut self, bytes: &mut Bytes) {
        let kind = bytes.kind();
        let (names, others) = (bytes.names(), bytes.names());
        let nonce = match bytes.next() % 3 {
            0 => String::new(),
            1 => "never".to_owned(),
            _ => self
                .inbox
                .last()
                .map(|response| response.nonce.clone())
                .unwrap_or_default(),
        };
        let version = others.concat();
        if self.dialect.sotw {
            let request = StateRequest {
                names,
                version,
                nonce,
                error: None,
            };
            self.session.on_state_request(kind, request);
            return;
        }
        let request = Request {
            subscribe: names.clone(),
            initial_versions: names
                .into_iter()
                .map(|name| (name, version.clone()))
                .collect(),
            unsubscribe: others,
            nonce,
            ..Request::default()
        };
        self.session.on_request(kind, request);
    }

    fn ask_in_protobuf(&mut self, bytes: &mut Bytes) {
        let kind = bytes.kind();
        if self.dialect.sotw {
            if let Ok(request) = DiscoveryRequest::decode(bytes.many()) {
                StateOfTheWorld::tell(&mut self.session, kind, request);
            }
        } else if let Ok(request) = DeltaDiscoveryRequest::decode(bytes.many()) {
            Delta::tell(&mut self.session, kind, request);
        }
    }

    /// Answers the oldest response.
    fn answer(&mut self, error: Option<String>) {
        if self.inbox.is_empty() {
            return;
        }
        let Response { kind, nonce, .. } = self.inbox.remove(0);
        if self.dialect.sotw {
            // A client repeats what it asks for, so this one asks for everything from now on.
            let names = if kind == ResourceType::Cluster || kind == ResourceType::Listener {
                vec!["*".to_owned()]
            } else {
                (1..4).map(|n| format!("r{n}")).collect()
            };
            let request = StateRequest {
                names,
                nonce,
                error,
                version: String::new(),
            };
            self.session.on_state_request(kind, request);
        } else {
            let request = Request {
                nonce,
                error,
                ..Request::default()
            };
            self.session.on_request(kind, request);
        }
    }

    fn poll(&mut self) {
        for response in self.session.poll(self.now) {
            assert!(
                self.nonces.insert(response.nonce.clone()),
                "a nonce is used twice"
            );
            self.inbox.push(response);
        }
    }

    fn take_everything(&mut self) {
        let mut taken = 0;
        loop {
            while !self.inbox.is_empty() {
                self.answer(None);
                self.poll();
                taken += 1;
                assert!(taken < MOST_RESPONSES, "the server does not come to rest");
            }
            match self.session.deadline(self.now) {
                None => return,
                Some(deadline) => {
                    assert!(deadline >= self.now, "a deadline is in the future");
                    self.now = deadline;
                }
            }
            self.poll();
            taken += 1;
            assert!(taken < MOST_RESPONSES, "the server does not come to rest");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// What a fuzzer would find first.
        #[test]
        fn any_history(data in prop::collection::vec(any::<u8>(), 0..600)) {
            super::discovery(&data);
        }
    }
}
