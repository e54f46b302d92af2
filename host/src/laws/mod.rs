//! The laws of the engine, tested over the whole chain: store → pipeline with the real reconcilers →
//! synchronizer → what proxies have.
//!
//! Histories of changes are random, and objects and modules fail in them. After each epoch
//!
//! | law | is checked against |
//! | --- | --- |
//! | L2 exactness | [`oracle`]: what each request shall be answered with, worked out from the objects alone, without any code of what is tested; [`envoy`] reads the same from the resources |
//! | L3 locality | [`spy`]: which calls were due, found by looking again at all that each object's last call saw |
//! | L4 atomicity | [`concurrent`]: readers on other threads, who look for halves |
//! | L8 agreement | a host that got the same objects in another order, and one that got them all at once |
//!
//! [`counted`] says that the cost of a change does not depend on how many objects there are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod concurrent;
mod counted;
mod envoy;
mod histories;
mod host;
mod manifests;
mod oracle;
mod serving;
mod spy;
mod strategies;
