//! What an API server would refuse about a route as a whole: files come without one.
//!
//! The bounds are those of the CRD of the Gateway API. They also bound the work: a route with ten
//! thousand rules is refused after counting them.

use chiton_guest::ir::check;
use chiton_guest::ir::condition::words;
use chiton_guest::{Condition, Object, Raw};
use gateway_api::apis::standard::httproutes::{
    HttpRouteRules as SpecRule, HttpRouteRulesFilters as SpecFilter, HttpRouteSpec,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;

const MAX_RULES: usize = 16;
const MAX_MATCHES: usize = 64;
const MAX_MATCHES_OF_ALL_RULES: usize = 128;
const MAX_HOSTNAMES: usize = 16;
const MAX_PARENTS: usize = 32;
/// Headers, query parameters, filters, backends, and headers that a filter sets, adds or removes.
const MAX_ITEMS: usize = 16;

/// Only as much as is needed to count the rules.
#[derive(Deserialize)]
struct Outline {
    spec: OutlineSpec,
}

#[derive(Deserialize)]
struct OutlineSpec {
    #[serde(default)]
    rules: Option<Vec<IgnoredAny>>,
}

/// The route's spec, if it is well-formed as a whole; else the condition that says why not.
pub fn decode(object: &Raw) -> Result<HttpRouteSpec, Box<Condition>> {
    if let Some(outline) = object.lenient::<Outline>() {
        let rules = outline.spec.rules.map_or(0, |rules| rules.len());
        at_most("spec.rules", rules, MAX_RULES).map_err(refuse)?;
    }
    let spec = object
        .decode::<Object<HttpRouteSpec>>()
        .map_err(Box::new)?
        .spec;
    check(&spec).map_err(refuse)?;
    Ok(spec)
}

fn refuse(message: String) -> Box<Condition> {
    Box::new(Condition::fails(words::ACCEPTED, words::INVALID, message))
}

fn check(spec: &HttpRouteSpec) -> Result<(), String> {
    at_most(
        "spec.parentRefs",
        count(spec.parent_refs.as_ref()),
        MAX_PARENTS,
    )?;
    at_most(
        "spec.hostnames",
        count(spec.hostnames.as_ref()),
        MAX_HOSTNAMES,
    )?;
    for (index, hostname) in spec.hostnames.iter().flatten().enumerate() {
        check::hostname::check(hostname)
            .map_err(|message| format!("spec.hostnames[{index}]: {message}"))?;
    }
    let Some(rules) = &spec.rules else {
        return Ok(());
    };
    if rules.is_empty() {
        return Err("spec.rules: must have at least one entry, or be left out".into());
    }
    let mut names = BTreeSet::new();
    let mut matches = 0;
    for (index, rule) in rules.iter().enumerate() {
        self::rule(&format!("spec.rules[{index}]"), rule)?;
        matches += count(rule.matches.as_ref()).max(1);
        if let Some(name) = &rule.name
            && !names.insert(name)
        {
            return Err(format!(
                "spec.rules[{index}].name: {name:?} is the name of another rule: give each its own"
            ));
        }
    }
    at_most(
        "spec.rules: matches of all rules",
        matches,
        MAX_MATCHES_OF_ALL_RULES,
    )
}

fn rule(at: &str, rule: &SpecRule) -> Result<(), String> {
    if let Some(name) = &rule.name {
        check::section_name(name).map_err(|message| format!("{at}.name: {message}"))?;
    }
    at_most(
        &format!("{at}.matches"),
        count(rule.matches.as_ref()),
        MAX_MATCHES,
    )?;
    for (index, one) in rule.matches.iter().flatten().enumerate() {
        let at = format!("{at}.matches[{index}]");
        at_most(
            &format!("{at}.headers"),
            count(one.headers.as_ref()),
            MAX_ITEMS,
        )?;
        at_most(
            &format!("{at}.queryParams"),
            count(one.query_params.as_ref()),
            MAX_ITEMS,
        )?;
    }
    filters(
        &format!("{at}.filters"),
        rule.filters.as_deref().unwrap_or_default(),
    )?;
    at_most(
        &format!("{at}.backendRefs"),
        count(rule.backend_refs.as_ref()),
        MAX_ITEMS,
    )?;
    for (index, backend) in rule.backend_refs.iter().flatten().enumerate() {
        let at = format!("{at}.backendRefs[{index}].filters");
        at_most(&at, count(backend.filters.as_ref()), MAX_ITEMS)?;
    }
    Ok(())
}

/// Bounds of a list of filters; also used for those of a backend once they are of this type.
pub fn filters(at: &str, filters: &[SpecFilter]) -> Result<(), String> {
    at_most(at, filters.len(), MAX_ITEMS)?;
    for (index, filter) in filters.iter().enumerate() {
        let lists = [
            filter.request_header_modifier.as_ref().map(|change| {
                [
                    count(change.set.as_ref()),
                    count(change.add.as_ref()),
                    count(change.remove.as_ref()),
                ]
            }),
            filter.response_header_modifier.as_ref().map(|change| {
                [
                    count(change.set.as_ref()),
                    count(change.add.as_ref()),
                    count(change.remove.as_ref()),
                ]
            }),
        ];
        for length in lists.into_iter().flatten().flatten() {
            at_most(&format!("{at}[{index}]: headers"), length, MAX_ITEMS)?;
        }
    }
    Ok(())
}

fn count<T>(list: Option<&Vec<T>>) -> usize {
    list.map_or(0, Vec::len)
}

fn at_most(what: &str, length: usize, limit: usize) -> Result<(), String> {
    if length > limit {
        return Err(format!(
            "{what}: has {length} entries, at most {limit} are allowed: split the route"
        ));
    }
    Ok(())
}
