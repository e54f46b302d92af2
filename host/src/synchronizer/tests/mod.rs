//! Tests of the synchronizer as a whole, on small worlds made by hand.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod apis;
mod backends;
mod gateways;
mod histories;
pub(super) mod lab;
pub(super) mod make;
mod policies;
mod routes;
