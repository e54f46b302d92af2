//! The rules of a route, and what their mistakes mean for the whole.

use crate::attach::Attachment;
use crate::fault::{Fault, Faults, INCOMPATIBLE_FILTERS, UNSUPPORTED_VALUE};
use crate::filters::Surroundings;
use crate::{backends, filters, matches, timeouts};
use chiton_guest::ir::condition::words;
use chiton_guest::ir::route::Rule;
use chiton_guest::{Condition, ConditionStatus, Scope};
use gateway_api::apis::standard::httproutes::HttpRouteRules as SpecRule;
use std::fmt::Write;

/// Mistakes that one message names.
const MAX_NAMED: usize = 8;

/// The rules of a route.
#[derive(Debug, Default)]
pub struct Rules {
    /// Rules for the document: valid ones, and invalid ones of which a match is known.
    pub served: Vec<Rule>,
    /// Mistakes, in the order of the rules.
    faults: Vec<Fault>,
    /// Whether a match was dropped.
    lost_match: bool,
    /// Whether a rule is valid.
    some_valid: bool,
}

/// Converts the rules. None given: one that takes every request and has no backend.
pub fn convert(mut specs: Vec<SpecRule>, namespace: &str) -> Rules {
    if specs.is_empty() {
        specs.push(SpecRule::default());
    }
    let mut rules = Rules::default();
    for (index, spec) in specs.into_iter().enumerate() {
        let mut faults = Faults::default();
        let rule = convert_one(
            &format!("spec.rules[{index}]"),
            spec,
            namespace,
            &mut faults,
        );
        rules.some_valid |= faults.0.is_empty();
        let is_match = |fault: &Fault| {
            fault
                .path
                .starts_with(&format!("spec.rules[{index}].matches["))
        };
        rules.lost_match |= faults.0.iter().any(is_match);
        // A rule of which no match is known takes no request.
        if !rule.matches.is_empty() {
            rules.served.push(rule);
        }
        rules.faults.append(&mut faults.0);
    }
    rules
}

fn convert_one(at: &str, spec: SpecRule, namespace: &str, faults: &mut Faults) -> Rule {
    let matches = matches::convert(at, spec.matches.as_deref().unwrap_or_default(), faults);
    let backends = spec.backend_refs.unwrap_or_default();
    let around = Surroundings {
        namespace,
        matches: &matches,
        has_backends: !backends.is_empty(),
    };
    let filters = filters::of_rule(
        &format!("{at}.filters"),
        spec.filters.as_deref().unwrap_or_default(),
        &around,
        faults,
    );
    let backends = backends::convert(at, &backends, namespace, faults);
    let timeouts = timeouts::convert(at, spec.timeouts.as_ref(), faults);
    if faults.0.is_empty() {
        return Rule {
            name: spec.name,
            matches,
            filters,
            backends,
            timeouts,
            invalid: false,
        };
    }
    Rule {
        name: spec.name,
        matches,
        invalid: true,
        ..Rule::default()
    }
}

impl Rules {
    /// The conditions of the route at a parent.
    pub fn conditions(&self, attachment: &Attachment) -> Vec<Condition> {
        let mut conditions = Vec::with_capacity(3);
        match &attachment.result {
            Err(refusal) => conditions.push(Condition::fails(
                words::ACCEPTED,
                refusal.reason,
                refusal.message.clone(),
            )),
            Ok(_) if self.faults.is_empty() => {
                conditions.push(Condition::holds(words::ACCEPTED, words::ACCEPTED));
            }
            Ok(_) if self.some_valid => {
                conditions.push(Condition::holds(words::ACCEPTED, words::ACCEPTED));
                conditions.push(Condition {
                    scope: Scope::Object,
                    r#type: "PartiallyInvalid".to_owned(),
                    status: ConditionStatus::True,
                    reason: UNSUPPORTED_VALUE.to_owned(),
                    message: format!("Dropped Rule: {}. {}", self.mistakes(), self.outcome()),
                });
            }
            Ok(_) => conditions.push(Condition::fails(
                words::ACCEPTED,
                self.reason(),
                format!("No rule is valid: {}", self.mistakes()),
            )),
        }
        if attachment.exists() {
            conditions.push(Condition::holds(words::RESOLVED_REFS, words::RESOLVED_REFS));
        }
        let scope = Scope::Parent(attachment.parent.clone());
        conditions
            .into_iter()
            .map(|condition| condition.at(scope.clone()))
            .collect()
    }

    /// What happens to requests for invalid rules.
    fn outcome(&self) -> String {
        let mut outcome = Vec::new();
        if self.served.iter().any(|rule| rule.invalid) {
            outcome.push("Requests that only such a rule matches are answered with 500.");
        }
        if self.lost_match {
            outcome.push(
                "A match that is not valid takes no request: what only it would match goes to \
                 other rules and routes, or is answered with 404.",
            );
        }
        outcome.join(" ")
    }

    /// The reason if no rule is valid.
    fn reason(&self) -> &'static str {
        let all_filters = self
            .faults
            .iter()
            .all(|fault| fault.reason == INCOMPATIBLE_FILTERS);
        if all_filters {
            INCOMPATIBLE_FILTERS
        } else {
            UNSUPPORTED_VALUE
        }
    }

    fn mistakes(&self) -> String {
        let named: Vec<String> = self
            .faults
            .iter()
            .take(MAX_NAMED)
            .map(ToString::to_string)
            .collect();
        let mut text = named.join("; ");
        let more = self.faults.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        text
    }
}
