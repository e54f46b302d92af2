//! An object that is held, and what is served in its place.

use super::form::Form;
use super::{Accepted, Notice};
use crate::pipeline::{Documents, Reconciled, World};
use crate::store::Key;
use chiton_ir::policy::Target;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reason of `Programmed=False` for an object that is held.
pub const REJECTED: &str = "Rejected";

/// An object that proxies refused.
///
/// Served is its last accepted form. Where it has none it is left out, as if it were absent; but a
/// policy that closes something stays closed: its targets that have never had it are answered with
/// 500. A policy closes if it asks for keys or answers itself, or if its module fails closed.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub accepted: Accepted,
    /// What was refused and by whom, in the proxy's words.
    pub text: String,
    /// Version of the form that was refused.
    pub refused: String,
    /// What it refers to: a change there may mend it.
    pub refers_to: BTreeSet<Key>,
    /// Targets of a closing policy that have never had it.
    pub closed: BTreeSet<Target>,
}

impl Held {
    /// Holds an object whose current form was refused.
    pub fn new(
        now: &Form,
        accepted: Accepted,
        text: String,
        fails_closed: impl Fn(&str) -> bool,
    ) -> Self {
        let closed = match &accepted {
            Accepted::Known(form) => closed_targets(now, form, fails_closed),
            Accepted::Unknown => BTreeSet::new(),
        };
        Self {
            refused: super::saved::version(now),
            refers_to: now.refers_to(),
            accepted,
            text,
            closed,
        }
    }

    /// Puts what is served in its place into a world.
    pub fn put(&self, key: &Key, world: &mut World) {
        let Accepted::Known(form) = &self.accepted else {
            return;
        };
        form.put(key, &format!("a proxy refused it: {}", self.text), world);
        close(key, self.closed.clone(), world);
    }

    /// What status says of it.
    pub fn notice(&self, key: &Key) -> Notice {
        let served = match &self.accepted {
            Accepted::Unknown => {
                "the form that they accepted last was not saved over a restart of the host, so proxies \
                 keep what they have"
            }
            Accepted::Known(form) if form.is_served(key) => {
                "the form that they accepted last is served"
            }
            Accepted::Known(_) => "it is left out",
        };
        let closed = if self.closed.is_empty() {
            ""
        } else {
            ", and targets that have never had it are answered with 500,"
        };
        Notice {
            reason: REJECTED,
            message: format!(
                "a proxy refused {}; {served}{closed} until it changes",
                self.text
            ),
        }
    }
}

/// Targets of a policy that closes something which its accepted form does not have.
pub(super) fn closed_targets(
    now: &Form,
    accepted: &Form,
    fails_closed: impl Fn(&str) -> bool,
) -> BTreeSet<Target> {
    let module = now.result.as_ref().map(|result| result.module.as_str());
    if !now.closes() && !module.is_some_and(fails_closed) {
        return BTreeSet::new();
    }
    let mut targets = now.targets();
    for target in accepted.targets() {
        targets.remove(&target);
    }
    targets
}

/// Has requests to these targets of a policy answered with 500.
pub(super) fn close(policy: &Key, targets: BTreeSet<Target>, world: &mut World) {
    if !targets.is_empty() {
        let result = Reconciled {
            documents: Documents::closing(targets.into_iter().collect()),
            ..Reconciled::default()
        };
        world.outputs.set(shadow(policy), Some(Arc::new(result)));
    }
}

/// The policy that closes the targets of a held one. No object can have its name.
pub(super) fn shadow(policy: &Key) -> Key {
    let name = format!("{}{SHADOW}", policy.name);
    Key::new(&policy.group, &policy.kind, &policy.namespace, &name)
}

/// Whether the key is of a [`shadow`].
pub(super) fn is_shadow(key: &Key) -> bool {
    key.name.ends_with(SHADOW)
}

const SHADOW: char = '~';
