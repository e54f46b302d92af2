//! What proxies would refuse is not sent to them.
//!
//! Reconcilers check what they return; one that somebody else wrote may not. An entry that cannot be
//! sent is answered with 500, one whose match cannot be sent is left out, and both are said.

use super::envoy::checks;
use super::model::{Action, RouteEntry};
use chiton_ir::policy::Effect;

/// What can be sent of an entry, if anything, and what was wrong with the rest.
pub fn sound(entry: RouteEntry) -> (Option<RouteEntry>, Option<String>) {
    let Err(fault) = checks::entry(&entry) else {
        return (Some(entry), None);
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
        Ok(()) => (
            Some(broken),
            Some(format!("{fault}; it is answered with 500")),
        ),
        Err(_) => (None, Some(format!("{fault}; it is left out"))),
    }
}

/// Whether an effect can be sent.
///
/// # Errors
/// What is wrong with it.
pub fn effect(effect: &Effect) -> Result<(), String> {
    checks::effect(effect)
}
