//! Requests of the state of the world, said in delta: what such a request names is all that the
//! client wants, so the difference to what it wanted before is what it subscribes to and leaves.

use super::requests::WILDCARD;
use super::{Feedback, Request, Session};
use crate::ResourceType;
use std::collections::BTreeSet;

/// A state-of-the-world request, without what does not matter to a session.
#[derive(Debug, Default)]
pub(crate) struct StateRequest {
    pub names: Vec<String>,
    /// That of the response that the client accepted last. Whether it accepts or rejects now, its
    /// error says, and what it answers, its nonce; but a version in a first request is of an earlier
    /// stream.
    pub version: String,
    /// Of the newest response that the client has seen; empty if it has seen none.
    pub nonce: String,
    /// Why that response was rejected.
    pub error: Option<String>,
}

impl Session {
    /// Takes a request. What it asks for is sent by the next [`Session::poll`].
    pub fn on_state_request(&mut self, kind: ResourceType, request: StateRequest) -> Feedback {
        let request = self.in_delta(kind, request);
        self.on_request(kind, request)
    }

    fn in_delta(&mut self, kind: ResourceType, state: StateRequest) -> Request {
        let subscription = &mut self.subscriptions[kind];
        // Names of a stale request do not count: the client repeats them when it answers the
        // response that it has not seen yet. What it says to the older one does.
        let is_stale = subscription.opened && state.nonce != subscription.nonce;
        let mut request = Request {
            nonce: state.nonce,
            error: state.error,
            returned: !state.version.is_empty(),
            ..Request::default()
        };
        subscription.named |= !state.names.is_empty();
        let is_legacy_wildcard = state.names.is_empty() && !subscription.named;
        if is_stale || is_legacy_wildcard {
            return request;
        }
        let wanted: BTreeSet<String> = state.names.into_iter().collect();
        let is_gone = |name: &str| !wanted.contains(name);
        let left = subscription.names.iter().filter(|name| is_gone(name));
        request.unsubscribe = left.map(ToString::to_string).collect();
        if subscription.wildcard && is_gone(WILDCARD) {
            request.unsubscribe.push(WILDCARD.to_owned());
        }
        request.subscribe = wanted
            .into_iter()
            .filter(|name| match name.as_str() {
                WILDCARD => !subscription.wildcard,
                name => !subscription.names.contains(name),
            })
            .collect();
        request
    }
}
