//! Which effect wins where.
//!
//! Levels, from above to below: Gateway, listener, API, route, rule. For each effect name the
//! winner is: override from above, override from below, default from below, default from above;
//! on one level the oldest policy. Effects of a Gateway and its listener are settled once for the
//! whole listener (*wide*); those of API, route and rule once for each combination of them, and
//! then against the wide ones.

use super::ids::ListenerId;
use super::outcomes::Outcome;
use super::policies::{Attached, Policies, Strength};
use crate::store::Key;
use std::collections::BTreeMap;

/// Name of the effect that answers requests itself. A route configuration cannot hold it.
pub const RESPOND: &str = "respond";
/// Name of the effect that answers preflights, for which some entries need a route of their own.
pub const CORS: &str = "cors";

/// Winners by effect name.
pub type Winners = BTreeMap<&'static str, Attached>;

/// Settles levels that come from above to below. What lost is noted.
fn settle<'a>(
    levels: impl IntoIterator<Item = Vec<&'a Attached>>,
    outcome: &mut Outcome,
) -> Winners {
    // The smaller rank wins. Of equal ranks the first counts, which is the oldest.
    let mut best: BTreeMap<&'static str, ((Strength, i8), &Attached)> = BTreeMap::new();
    for (level, depth) in levels.into_iter().zip(0i8..) {
        for attached in level {
            let depth = match attached.strength {
                Strength::Override => depth,
                Strength::Default => -depth,
            };
            let rank = (attached.strength, depth);
            let winner = best.entry(attached.name()).or_insert((rank, attached));
            if std::ptr::eq(winner.1, attached) {
                continue;
            }
            let loser = if rank < winner.0 {
                std::mem::replace(winner, (rank, attached)).1
            } else {
                attached
            };
            outcome.defeats(loser, winner.1);
        }
    }
    // A loser may have lost to somebody who lost later: the final winner is the one to name.
    let winners: Winners = best
        .into_iter()
        .map(|(name, (_, attached))| (name, attached.clone()))
        .collect();
    outcome.rename_winners(&winners);
    winners
}

/// What holds on a whole listener.
pub fn wide(policies: &Policies, listener: &ListenerId, outcome: &mut Outcome) -> Winners {
    let gateway = policies.at(&listener.gateway, None).collect();
    let own = policies
        .at(&listener.gateway, Some(&listener.section))
        .collect();
    settle([gateway, own], outcome)
}

/// What the policies of an API, a route and a rule come to among themselves.
pub fn own(
    policies: &Policies,
    api: Option<&Key>,
    route: &Key,
    rule: Option<&str>,
    outcome: &mut Outcome,
) -> Winners {
    let api = api.map(|api| policies.at(api, None).collect());
    let whole = policies.at(route, None).collect();
    let rule = rule.map(|rule| policies.at(route, Some(rule)).collect());
    settle(
        [api.unwrap_or_default(), whole, rule.unwrap_or_default()],
        outcome,
    )
}

/// Settles a route's own winners against the wide ones: returns those of its own that hold.
pub fn against(mut own: Winners, wide: &Winners, outcome: &mut Outcome) -> Winners {
    own.retain(|name, mine| match wide.get(name) {
        Some(theirs) if theirs.strength == Strength::Override => {
            outcome.rename(&mine.policy, name, &theirs.policy);
            outcome.defeats(mine, theirs);
            false
        }
        Some(theirs) => {
            outcome.defeats(theirs, mine);
            true
        }
        None => true,
    });
    for mine in own.values() {
        outcome.wins(mine);
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synchronizer::model::PlacedEffect;
    use chiton_ir::policy::{Effect, Respond};
    use std::sync::Arc;

    fn attached(policy: &str, strength: Strength) -> Attached {
        Attached {
            policy: Key::new("chiton.dev", "Policy", "default", policy),
            strength,
            placed: PlacedEffect {
                effect: Arc::new(Effect::Respond(Respond {
                    status: 200,
                    body: policy.to_owned(),
                })),
                bucket: String::new(),
                keys: None,
            },
        }
    }

    fn winner(levels: &[&[Attached]]) -> (String, usize) {
        let mut outcome = Outcome::default();
        let levels = levels.iter().map(|level| level.iter().collect());
        let winners = settle(levels, &mut outcome);
        let name = winners[RESPOND].policy.name.clone();
        assert!(outcome.losses.iter().all(|loss| loss.winner.name == name));
        (name.to_string(), outcome.losses.len())
    }

    #[test]
    fn precedence_is_that_of_gep_713() {
        use Strength::{Default, Override};
        let above_default = [attached("above-default", Default)];
        let below_default = [attached("below-default", Default)];
        let above_override = [attached("above-override", Override)];
        let below_override = [attached("below-override", Override)];
        let both_above = [above_default[0].clone(), above_override[0].clone()];
        let both_below = [below_default[0].clone(), below_override[0].clone()];
        assert_eq!(winner(&[&above_default, &below_default]).0, "below-default");
        assert_eq!(winner(&[&above_default, &both_below]).0, "below-override");
        assert_eq!(
            winner(&[&both_above, &both_below]),
            ("above-override".into(), 3)
        );
        assert_eq!(winner(&[&above_default, &[]]), ("above-default".into(), 0));
    }

    #[test]
    fn on_one_level_the_first_wins() {
        let level = [
            attached("old", Strength::Default),
            attached("young", Strength::Default),
        ];
        assert_eq!(winner(&[&level]), ("old".into(), 1));
    }
}
