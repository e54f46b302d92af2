//! Golden cases: `tests/golden/<case>/in.yaml` and what `chiton render` makes of it, `out.yaml`.
//!
//! Each case is small enough to be reviewed as text. `make golden` writes `out.yaml` again; the diff is
//! what a change means to users. The same cases are served to a real Envoy ([`served`]) and read in
//! another order ([`order`]).

mod cases;
mod commands;
mod dump;
mod order;
mod rendered;
mod served;
