//! What proxies would refuse is not sent to them.
//!
//! Reconcilers check what they return; one that somebody else wrote may not. An entry that cannot be
//! sent is answered with 500, one whose match cannot be sent is left out, and both are said.

use super::envoy::checks;
use super::model::{Action, RouteEntry};
use chiton_ir::policy::Effect;

/// An entry that can be sent.
///
/// # Errors
/// What can be sent in its place, if anything, and what was wrong.
pub fn sound(entry: RouteEntry) -> Result<RouteEntry, (Option<RouteEntry>, String)> {
    let Err(fault) = checks::entry(&entry) else {
        return Ok(entry);
    };
    let broken = RouteEntry {
        filters: Vec::new(),
        mirrors: Vec::new(),
        action: Action::Respond {
            status: 500,
            body: String::new(),
        },
        timeouts: chiton_ir::route::Timeouts::default(),
        ..entry
    };
    match checks::entry(&broken) {
        Ok(()) => Err((Some(broken), format!("{fault}; it is answered with 500"))),
        Err(_) => Err((None, format!("{fault}; it is left out"))),
    }
}

/// Whether an effect can be sent.
///
/// # Errors
/// What is wrong with it.
pub fn effect(effect: &Effect) -> Result<(), String> {
    checks::effect(effect)
}
