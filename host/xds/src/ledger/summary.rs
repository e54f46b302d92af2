//! What the ledger answers.
//!
//! In a cluster several replicas each know some proxies. What one of them knows is a list of
//! [`ProxySummary`]s, which can be serialised; the list of all proxies is the lists of all replicas
//! one after the other. A proxy has one stream at a time, but for a moment after it has reconnected
//! its replica before may not have noticed: of two entries of one `group` and `node` the one with the
//! later `since` counts. Likewise a group has acknowledged something when every replica that has
//! proxies of it says [`Programmed::Acked`] (those without say [`Programmed::NoProxy`]), and what is
//! rejected is the union of all [`Rejection`]s, with `proxies` added up by name and version.

use crate::{ResourceName, ResourceType};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A resource in the form in which it should be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Identity.
    pub name: ResourceName,
    /// Version.
    pub version: String,
}

/// Whether all proxies of a group have acknowledged resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// No proxy of the group is connected.
    NoProxy,
    /// A proxy has not answered yet, or none was ever in sync since it connected.
    Pending,
    /// All proxies that were in sync once have acknowledged all of them. Others do not count.
    Acked,
    /// A proxy rejected one of them.
    Nacked {
        /// Resource.
        name: ResourceName,
        /// The proxy's words.
        text: String,
    },
}

/// A connected proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxySummary {
    /// `node.id`.
    pub node: String,
    /// `node.cluster`: its group.
    pub group: String,
    /// Where it connects from; `unix` for a unix socket.
    pub address: String,
    /// When it connected, in seconds since 1970.
    pub since: u64,
    /// When it last said something, in seconds since 1970.
    pub last_seen: u64,
    /// Whether it had everything once since it connected. Until then it does not count.
    pub synced: bool,
    /// Counts of the types that it asked for.
    pub types: BTreeMap<ResourceType, TypeSummary>,
    /// Rejections that stand.
    pub nacks: Vec<NackSummary>,
}

/// Numbers of resources of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeSummary {
    /// Resources that the proxy was sent, or brought along from an earlier stream.
    pub sent: usize,
    /// Of these, acknowledged in the version that was sent last.
    pub acked: usize,
    /// Of these, rejected in the version that was sent last.
    pub nacked: usize,
}

/// A resource that a proxy rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NackSummary {
    /// Resource.
    pub name: ResourceName,
    /// Version that was rejected.
    pub version: String,
    /// Version that the proxy still has, if it is known.
    pub accepted_version: Option<String>,
    /// The proxy's words.
    pub text: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// A version of a resource that proxies of a group reject. It stands until another version is
/// published, or those proxies are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Resource.
    pub name: ResourceName,
    /// Version that is rejected.
    pub version: String,
    /// What the proxy that rejected it first says.
    pub text: String,
    /// Number of connected proxies that reject it.
    pub proxies: usize,
}

/// A rejection of one resource, as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectionEvent {
    /// Rejections are counted from 1, over all groups.
    pub number: u64,
    /// The proxy's group.
    pub group: String,
    /// Resource.
    pub name: ResourceName,
    /// Version that was rejected.
    pub version: Arc<str>,
    /// The proxy's words.
    pub text: String,
}

/// What one proxy has of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Possession {
    /// Version that it was sent last; empty if it may not have taken it.
    pub sent: Arc<str>,
    /// Version that it accepted last and has not been sent anew since.
    pub accepted: Option<Arc<str>>,
    /// Whether it rejected what it was sent last.
    pub rejected: bool,
    /// Whether it had everything once since it connected. Until then it does not count.
    pub synced: bool,
}
