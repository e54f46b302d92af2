//! Wishes of Gateways' listeners for addresses and ports, and who gets them.

use super::ids::ListenerId;
use chiton_ir::check;
use chiton_ir::gateway::Listener;
use std::net::IpAddr;

/// First port that an unprivileged process may bind.
const FIRST_FREE_PORT: u16 = 1024;

/// Reason of the Gateway API: somebody else has the port.
pub const PORT_UNAVAILABLE: &str = "PortUnavailable";
/// Reason of the Gateway API: the port is used with another protocol.
const PROTOCOL_CONFLICT: &str = "ProtocolConflict";
/// Reason of the Gateway API: the port is used for the same hostname.
const HOSTNAME_CONFLICT: &str = "HostnameConflict";

/// A wish for an address and port.
pub struct Claim<'a> {
    /// Whose it is.
    pub id: ListenerId,
    /// What it is for.
    pub listener: &'a Listener,
}

/// An address and port, and how its resources' names end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Address to bind.
    pub address: IpAddr,
    /// Port to bind.
    pub port: u16,
    /// `_<address>` where a Gateway asks for the address, else empty.
    pub suffix: String,
}

/// Why a claim is not met.
pub struct Conflict {
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// What a reconciler should not have let through.
///
/// # Errors
/// What is wrong with the listener.
pub fn sound(listener: &Listener) -> Result<(), String> {
    check::section_name(&listener.name).map_err(|why| format!("the listener's name {why}"))?;
    if let Some(hostname) = &listener.hostname {
        check::hostname::check(hostname).map_err(|why| format!("the hostname {why}"))?;
    }
    if listener.port == 0 {
        return Err("port 0 is no port".into());
    }
    Ok(())
}

/// The port to bind for a listener's port: ports that proxies may not bind are moved.
#[must_use]
pub fn bound_port(port: u16, offset: u16) -> u16 {
    if port < FIRST_FREE_PORT {
        port.checked_add(offset).unwrap_or(port)
    } else {
        port
    }
}

/// Claims for one place that can be met together, and why the others cannot. They come oldest
/// first.
#[must_use]
pub fn arbitrate(claims: Vec<Claim<'_>>) -> (Vec<Claim<'_>>, Vec<(ListenerId, Conflict)>) {
    let mut served = Vec::new();
    let mut lost = Vec::new();
    for claim in claims {
        match conflict(&served, claim.listener) {
            None => served.push(claim),
            Some(conflict) => lost.push((claim.id, conflict)),
        }
    }
    (served, lost)
}

fn conflict(served: &[Claim<'_>], listener: &Listener) -> Option<Conflict> {
    let first = served.first()?;
    let port = first.listener.port;
    let (winner, reason, what) = if port != listener.port {
        let what =
            format!("its port is moved to the one that port {port} is moved to, which is used");
        (first, PORT_UNAVAILABLE, what)
    } else if first.listener.protocol != listener.protocol {
        let what = format!("port {port} is used with another protocol");
        (first, PROTOCOL_CONFLICT, what)
    } else {
        let mut same = served
            .iter()
            .filter(|it| it.listener.hostname == listener.hostname);
        let what = format!("the same hostname on port {port} is used");
        (same.next()?, HOSTNAME_CONFLICT, what)
    };
    let message = format!(
        "{what} by {}, which comes first; the listener is not served",
        winner.id
    );
    Some(Conflict { reason, message })
}
