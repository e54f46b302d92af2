//! Joining a reconciler's conditions with the host's.

use chiton_ir::condition::words;
use chiton_ir::{Condition, ConditionStatus};

/// The reconciler's conditions, with the host's put over them. The host may only downgrade: where
/// both speak of the same type and scope, a reconciler's `False` of `Accepted` or `ResolvedRefs`
/// stays as it is.
#[must_use]
pub fn merge(mut conditions: Vec<Condition>, host: &[Condition]) -> Vec<Condition> {
    for finding in host {
        let existing = conditions.iter_mut().find(|condition| {
            condition.r#type == finding.r#type && condition.scope == finding.scope
        });
        match existing {
            Some(existing) if is_verdict(existing) && existing.status == ConditionStatus::False => {
            }
            Some(existing) => *existing = finding.clone(),
            None => conditions.push(finding.clone()),
        }
    }
    conditions
}

/// Whether `False` of this type is the worst that can be said.
fn is_verdict(condition: &Condition) -> bool {
    condition.r#type == words::ACCEPTED || condition.r#type == words::RESOLVED_REFS
}

#[cfg(test)]
mod tests {
    use super::*;
    use chiton_ir::Scope;

    #[test]
    fn the_host_downgrades_and_never_upgrades() {
        let guest = vec![
            Condition::holds("Accepted", "Accepted"),
            Condition::fails("ResolvedRefs", "InvalidKind", "guest"),
        ];
        let host = [
            Condition::fails("Accepted", "TargetNotFound", "host"),
            Condition::holds("ResolvedRefs", "ResolvedRefs"),
        ];
        let merged = merge(guest.clone(), &host);
        assert_eq!(merged, [host[0].clone(), guest[1].clone()]);
    }

    #[test]
    fn other_scopes_and_types_stand_beside_each_other() {
        let guest = vec![Condition::holds("Accepted", "Accepted")];
        let host =
            [Condition::fails("Accepted", "Conflicted", "x").at(Scope::Section("http".into()))];
        assert_eq!(merge(guest, &host).len(), 2);
    }
}
