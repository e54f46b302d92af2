//! What status says of each object.
//!
//! Status joins three sources: the conditions that the reconciler returned, what the synchronizer
//! found out ([`Findings`]), and what the proxies acknowledged. It is computed when it is asked for,
//! from state that others hold; nothing is cached here.

mod board;
mod merge;
pub mod table;

pub use board::Board;
pub use merge::merge;

use crate::pipeline::World;
use crate::store::Key;
use crate::synchronizer::Findings;
use crate::synchronizer::holding::Notice;
use chiton_ir::condition::words;
use chiton_ir::{Condition, ConditionStatus, ParentRef, Scope};
use chiton_xds::ResourceName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Status of one object, as `chiton status`, the admin API and `chiton render` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// File and line it was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Module that reconciled it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Conditions, sorted by scope and type.
    pub conditions: Vec<Condition>,
    /// For a Gateway: routes attached to each listener.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attached_routes: BTreeMap<String, u32>,
    /// For a policy: the Gateways through which it has an effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<ParentRef>,
}

/// What the proxies say of the resources of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// Every synced proxy acknowledged them.
    Yes,
    /// Not yet, or nobody is connected; why.
    Pending(String),
    /// A proxy refused one, or it cannot be sent; reason and message.
    No(&'static str, String),
}

impl Programmed {
    fn condition(self, scope: &Scope) -> Condition {
        match self {
            Self::Yes => Condition::holds(words::PROGRAMMED, words::PROGRAMMED),
            Self::Pending(why) => Condition::fails(words::PROGRAMMED, words::PENDING, why),
            Self::No(reason, why) => Condition::fails(words::PROGRAMMED, reason, why),
        }
        .at(scope.clone())
    }

    /// The worse of two verdicts; of two that are equally bad the first.
    fn worse(self, other: Self) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Yes => 0,
            Self::Pending(_) => 1,
            Self::No(..) => 2,
        };
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }
}

impl From<chiton_xds::Programmed> for Programmed {
    fn from(verdict: chiton_xds::Programmed) -> Self {
        match verdict {
            chiton_xds::Programmed::Acked => Self::Yes,
            chiton_xds::Programmed::NoProxy => {
                Self::Pending("no proxy of this Gateway is connected".into())
            }
            chiton_xds::Programmed::Pending => {
                Self::Pending("waiting for the proxies to acknowledge the configuration".into())
            }
            chiton_xds::Programmed::Nacked { name, text } => Self::No(
                words::INVALID,
                format!("a proxy refused {}: {text}", name.name),
            ),
        }
    }
}

/// What the proxies say.
#[derive(Clone, Copy)]
pub struct Said<'a> {
    /// Answers for resources of a fleet.
    pub programmed: &'a dyn Fn(&str, &[ResourceName]) -> Programmed,
    /// Objects that are not served in their current form.
    pub held: &'a imbl::OrdMap<Key, Notice>,
}

/// Status of every object that was reconciled, that the synchronizer found something about or that
/// is held, sorted by kind, namespace and name. Without proxies no `Programmed` condition is given.
#[must_use]
pub fn all(
    world: &World,
    findings: BTreeMap<&Key, &Findings>,
    proxies: Option<Said>,
) -> Vec<ObjectStatus> {
    let mut objects: BTreeMap<&Key, Option<&Findings>> =
        world.outputs.iter().map(|(key, _)| (key, None)).collect();
    let held = proxies.iter().flat_map(|proxies| proxies.held.keys());
    objects.extend(held.map(|key| (key, None)));
    objects.extend(
        findings
            .into_iter()
            .map(|(key, findings)| (key, Some(findings))),
    );
    objects
        .into_iter()
        .map(|(key, findings)| one(key, world, findings, proxies))
        .collect()
}

fn one(
    key: &Key,
    world: &World,
    findings: Option<&Findings>,
    proxies: Option<Said>,
) -> ObjectStatus {
    let reconciled = world.outputs.get(key);
    let none = Findings::default();
    let findings = findings.unwrap_or(&none);
    let mut conditions = merge(
        reconciled
            .map(|reconciled| reconciled.conditions.to_vec())
            .unwrap_or_default(),
        &findings.conditions,
    );
    if let Some(proxies) = proxies {
        let verdicts = verdicts(&conditions, findings, proxies, proxies.held.get(key));
        conditions.extend(verdicts);
    }
    conditions.sort();
    let origin = world
        .inputs
        .get(key)
        .and_then(|object| object.origin.as_ref());
    ObjectStatus {
        group: key.group.to_string(),
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        origin: origin.map(|origin| format!("{}:{}", origin.path.display(), origin.line)),
        module: reconciled
            .map(|reconciled| reconciled.module.clone())
            .unwrap_or_default(),
        conditions,
        attached_routes: findings.attached_routes.clone(),
        ancestors: findings.ancestors.clone(),
    }
}

/// `Programmed` wherever it stands. What is held says so everywhere, and at least once.
fn verdicts(
    conditions: &[Condition],
    findings: &Findings,
    proxies: Said,
    held: Option<&Notice>,
) -> Vec<Condition> {
    let scopes = accepted_scopes(conditions);
    let Some(notice) = held else {
        let verdict = |scope| Some(verdict(findings, scope, proxies.programmed)?.condition(scope));
        return scopes.filter_map(verdict).collect();
    };
    let no = Programmed::No(notice.reason, notice.message.clone());
    let mut verdicts: Vec<_> = scopes.map(|scope| no.clone().condition(scope)).collect();
    if verdicts.is_empty() {
        verdicts.push(no.condition(&Scope::Object));
    }
    verdicts
}

/// Where `Programmed` stands: wherever `Accepted` does and is true.
fn accepted_scopes(conditions: &[Condition]) -> impl Iterator<Item = &Scope> {
    conditions
        .iter()
        .filter(|condition| condition.r#type == words::ACCEPTED)
        .filter(|condition| condition.status == ConditionStatus::True)
        .map(|condition| &condition.scope)
}

/// What the proxies say of an object or of one listener of it; none if nothing of it is sent.
fn verdict(
    findings: &Findings,
    scope: &Scope,
    programmed: &dyn Fn(&str, &[ResourceName]) -> Programmed,
) -> Option<Programmed> {
    if let Scope::Section(section) = scope {
        let (fleet, _) = findings.resources.first()?;
        return Some(match findings.sections.get(section).map(Vec::as_slice) {
            None | Some([]) => Programmed::No(
                words::INVALID,
                "the listener is not served; its other conditions say why".into(),
            ),
            Some(names) => programmed(fleet, names),
        });
    }
    findings
        .resources
        .iter()
        .map(|(fleet, names)| programmed(fleet, names))
        .reduce(Programmed::worse)
}
