//! What a request must have for a rule to take it.

use crate::fault::Faults;
use chiton_guest::ir::check::{http, regex};
use chiton_guest::ir::route::{Match, PathMatch, StringMatch, ValueMatch};
use gateway_api::apis::standard::httproutes::{
    HttpRouteRulesMatches as SpecMatch, HttpRouteRulesMatchesHeaders as SpecHeader,
    HttpRouteRulesMatchesHeadersType as HeaderType, HttpRouteRulesMatchesMethod as Method,
    HttpRouteRulesMatchesPath as SpecPath, HttpRouteRulesMatchesPathType as PathType,
    HttpRouteRulesMatchesQueryParams as SpecQuery,
    HttpRouteRulesMatchesQueryParamsType as QueryType,
};

/// Longest value of a query parameter (Gateway API).
const MAX_QUERY_VALUE: usize = 1024;

/// The matches of a rule. A match that is not valid is left out and noted. None given: every
/// request.
pub fn convert(at: &str, matches: &[SpecMatch], faults: &mut Faults) -> Vec<Match> {
    if matches.is_empty() {
        return vec![Match::default()];
    }
    matches
        .iter()
        .enumerate()
        .filter_map(|(index, one)| convert_one(&format!("{at}.matches[{index}]"), one, faults))
        .collect()
}

fn convert_one(at: &str, spec: &SpecMatch, faults: &mut Faults) -> Option<Match> {
    let before = faults.0.len();
    let converted = Match {
        path: path(&format!("{at}.path.value"), spec.path.as_ref(), faults),
        headers: headers(at, spec.headers.as_deref().unwrap_or_default(), faults),
        query: query(at, spec.query_params.as_deref().unwrap_or_default(), faults),
        method: spec.method.as_ref().map(|method| name(method).to_owned()),
    };
    (faults.0.len() == before).then_some(converted)
}

fn path(at: &str, path: Option<&SpecPath>, faults: &mut Faults) -> PathMatch {
    let value = path.and_then(|path| path.value.as_deref()).unwrap_or("/");
    let r#type = path.and_then(|path| path.r#type.as_ref());
    let verdict = match r#type {
        Some(PathType::RegularExpression) => regex::check(value),
        _ => http::path(value),
    };
    faults.check(at, verdict);
    match r#type {
        Some(PathType::Exact) => PathMatch::Exact(value.to_owned()),
        Some(PathType::RegularExpression) => PathMatch::Regex(value.to_owned()),
        Some(PathType::PathPrefix) | None => PathMatch::Prefix(prefix(value).to_owned()),
    }
}

/// A prefix without the slash at its end, which does not change what it means.
pub fn prefix(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    }
}

/// Header matches. Of equivalent names only the first counts; case is no difference.
fn headers(at: &str, headers: &[SpecHeader], faults: &mut Faults) -> Vec<ValueMatch> {
    let mut kept: Vec<ValueMatch> = Vec::with_capacity(headers.len());
    for (index, header) in headers.iter().enumerate() {
        let at = format!("{at}.headers[{index}]");
        let name = header.name.to_ascii_lowercase();
        if kept.iter().any(|other| other.name == name) {
            continue;
        }
        faults.check(format!("{at}.name"), http::header_name(&name));
        let is_regex = header.r#type == Some(HeaderType::RegularExpression);
        let verdict = if is_regex {
            regex::check(&header.value)
        } else {
            http::header_value(&header.value)
        };
        faults.check(format!("{at}.value"), verdict);
        kept.push(value_match(name, &header.value, is_regex));
    }
    kept
}

/// Query parameter matches. Of equal names only the first counts.
fn query(at: &str, parameters: &[SpecQuery], faults: &mut Faults) -> Vec<ValueMatch> {
    let mut kept: Vec<ValueMatch> = Vec::with_capacity(parameters.len());
    for (index, parameter) in parameters.iter().enumerate() {
        let at = format!("{at}.queryParams[{index}]");
        if kept.iter().any(|other| other.name == parameter.name) {
            continue;
        }
        let name = http::header_name(&parameter.name)
            .map_err(|message| message.replace("a header name", "the name of a query parameter"));
        faults.check(format!("{at}.name"), name);
        let is_regex = parameter.r#type == Some(QueryType::RegularExpression);
        faults.check(
            format!("{at}.value"),
            query_value(&parameter.value, is_regex),
        );
        kept.push(value_match(
            parameter.name.clone(),
            &parameter.value,
            is_regex,
        ));
    }
    kept
}

fn query_value(value: &str, is_regex: bool) -> Result<(), String> {
    if value.is_empty() || value.len() > MAX_QUERY_VALUE {
        return Err(format!("must have 1 to {MAX_QUERY_VALUE} characters"));
    }
    if is_regex {
        regex::check(value)
    } else {
        http::header_value(value)
    }
}

fn value_match(name: String, value: &str, is_regex: bool) -> ValueMatch {
    let value = value.to_owned();
    ValueMatch {
        name,
        value: if is_regex {
            StringMatch::Regex(value)
        } else {
            StringMatch::Exact(value)
        },
    }
}

fn name(method: &Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Connect => "CONNECT",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Patch => "PATCH",
    }
}
