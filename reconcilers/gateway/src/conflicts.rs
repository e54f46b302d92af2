//! Listeners of one Gateway that are not distinct.
//!
//! A connection must be for exactly one listener. On one port all listeners speak one protocol, and
//! no two have the same hostname. The Gateway API forbids to pick a winner: all that are in conflict
//! are refused. (Conflicts between Gateways are the host's to find.)

use crate::listener::{Draft, Problem};
use chiton_guest::ir::check::hostname;
use chiton_guest::ir::gateway::{Listener, Protocol};

/// Finds and notes conflicts, then overlaps of TLS hostnames among what is left. A listener of a
/// protocol that is not spoken here is in nobody's way.
pub fn find(drafts: &mut [Draft]) {
    let seen: Vec<Option<Listener>> = drafts
        .iter()
        .map(|draft| draft.known_protocol.then(|| draft.listener().clone()))
        .collect();
    for (index, draft) in drafts.iter_mut().enumerate() {
        let others = seen.iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<&Listener> = others.filter_map(|(_, other)| other.as_ref()).collect();
        if draft.known_protocol
            && let Some(problem) = conflict(draft.listener(), &others)
        {
            draft.conflicts(problem);
        }
    }
    overlaps(drafts);
}

fn conflict(listener: &Listener, others: &[&Listener]) -> Option<Problem> {
    let on_port = || others.iter().filter(|other| other.port == listener.port);
    if let Some(other) = on_port().find(|other| other.protocol != listener.protocol) {
        return Some(Problem {
            reason: "ProtocolConflict",
            message: format!(
                "listener {} speaks another protocol on port {}: use another port",
                other.name, other.port
            ),
        });
    }
    let other = on_port().find(|other| other.hostname == listener.hostname)?;
    Some(Problem {
        reason: "HostnameConflict",
        message: format!(
            "listener {} has the same hostname, {}, on port {}: give each its own",
            other.name,
            other.hostname.as_deref().unwrap_or("every one"),
            other.port
        ),
    })
}

fn overlaps(drafts: &mut [Draft]) {
    let served: Vec<Listener> = drafts
        .iter()
        .filter(|draft| draft.is_accepted() && draft.listener().protocol == Protocol::Https)
        .map(|draft| draft.listener().clone())
        .collect();
    for draft in drafts.iter_mut().filter(|draft| draft.is_accepted()) {
        let own = draft.listener();
        if own.protocol != Protocol::Https {
            continue;
        }
        draft.overlaps = served
            .iter()
            .filter(|other| other.name != own.name && other.port == own.port)
            .filter(|other| hostname::intersection(names(own), names(other)).is_some())
            .map(|other| other.name.clone())
            .collect();
    }
}

fn names(listener: &Listener) -> &str {
    listener.hostname.as_deref().unwrap_or(hostname::ANY)
}
