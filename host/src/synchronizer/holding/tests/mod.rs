//! Tests with proxies that refuse what a test wants them to.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod histories;
mod kinds;
mod policies;
mod restart;
mod routes;
