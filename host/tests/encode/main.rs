//! What is encoded, served by the real Envoy and asked with real requests.
//!
//! Each test writes model values as the assembler would, serves their encoding through `chiton-xds`
//! and looks at what a client and a backend see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
// Tables of cases are long and plain.
#![allow(clippy::too_many_lines)]

mod actions;
mod backend;
mod client;
mod effects;
mod gateway;
mod matches;
mod policies;
mod rewrites;
mod tls;
mod values;
