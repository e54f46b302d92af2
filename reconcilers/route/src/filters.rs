//! Filters: what happens to a request and its answer.

use crate::backends::Reference;
use crate::fault::Faults;
use crate::urls::{redirect, rewrite};
use chiton_guest::ir::check::http;
use chiton_guest::ir::route::{Filter, Header, HeaderChange, Match, Mirror};
use gateway_api::apis::standard::httproutes::{
    HttpRouteRulesFilters as SpecFilter, HttpRouteRulesFiltersRequestMirror as SpecMirror,
    HttpRouteRulesFiltersType as Type,
};

/// What a filter's rule is like, as far as filters must fit to it.
pub struct Surroundings<'a> {
    /// Namespace of the route.
    pub namespace: &'a str,
    /// Matches of the rule.
    pub matches: &'a [Match],
    /// Whether the rule names backends.
    pub has_backends: bool,
}

/// The filters of a rule.
pub fn of_rule(
    at: &str,
    filters: &[SpecFilter],
    around: &Surroundings<'_>,
    faults: &mut Faults,
) -> Vec<Filter> {
    once_each(at, filters, faults);
    let has = |wanted: &Type| filters.iter().any(|filter| filter.r#type == *wanted);
    if has(&Type::RequestRedirect) && has(&Type::UrlRewrite) {
        faults.filters(
            at,
            "RequestRedirect and URLRewrite exclude each other: keep one",
        );
    }
    if has(&Type::RequestRedirect) && around.has_backends {
        faults.filters(
            at,
            "RequestRedirect and backendRefs exclude each other: keep one",
        );
    }
    let mut converted = Vec::with_capacity(filters.len());
    for (index, filter) in filters.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if fits_its_type(&at, filter, faults) {
            converted.extend(convert(&at, filter, around, faults));
        }
    }
    converted
}

/// The filters of a backend: of headers only.
pub fn of_backend(at: &str, filters: &[SpecFilter], faults: &mut Faults) -> Vec<Filter> {
    once_each(at, filters, faults);
    let mut converted = Vec::with_capacity(filters.len());
    for (index, filter) in filters.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if !matches!(
            filter.r#type,
            Type::RequestHeaderModifier | Type::ResponseHeaderModifier
        ) {
            let name = name(&filter.r#type);
            faults.value(
                format!("{at}.type"),
                format!("{name} is not supported at a backend: put it into the rule's filters"),
            );
        } else if fits_its_type(&at, filter, faults) {
            converted.extend(header_change(&at, filter, faults));
        }
    }
    converted
}

fn once_each(at: &str, filters: &[SpecFilter], faults: &mut Faults) {
    for (index, filter) in filters.iter().enumerate() {
        let repeatable = matches!(filter.r#type, Type::RequestMirror | Type::ExtensionRef);
        let earlier = filters.iter().take(index);
        if !repeatable && earlier.clone().any(|other| other.r#type == filter.r#type) {
            let name = name(&filter.r#type);
            faults.filters(
                format!("{at}[{index}]"),
                format!("{name} is there twice: keep one"),
            );
        }
    }
}

/// Whether the field of the filter's type is there, and no other.
fn fits_its_type(at: &str, filter: &SpecFilter, faults: &mut Faults) -> bool {
    let fields = [
        (
            Type::RequestHeaderModifier,
            "requestHeaderModifier",
            filter.request_header_modifier.is_some(),
        ),
        (
            Type::ResponseHeaderModifier,
            "responseHeaderModifier",
            filter.response_header_modifier.is_some(),
        ),
        (
            Type::RequestMirror,
            "requestMirror",
            filter.request_mirror.is_some(),
        ),
        (
            Type::RequestRedirect,
            "requestRedirect",
            filter.request_redirect.is_some(),
        ),
        (Type::UrlRewrite, "urlRewrite", filter.url_rewrite.is_some()),
        (
            Type::ExtensionRef,
            "extensionRef",
            filter.extension_ref.is_some(),
        ),
        (Type::Cors, "cors", filter.cors.is_some()),
    ];
    let mut fits = true;
    for (r#type, field, given) in fields {
        if given != (r#type == filter.r#type) {
            let (verb, of) = if given {
                ("must not", "another")
            } else {
                ("must", "this")
            };
            faults.value(
                format!("{at}.{field}"),
                format!(
                    "{verb} be given with the type {}: it is the field of {of} type",
                    name(&filter.r#type)
                ),
            );
            fits = false;
        }
    }
    fits
}

fn convert(
    at: &str,
    filter: &SpecFilter,
    around: &Surroundings<'_>,
    faults: &mut Faults,
) -> Option<Filter> {
    match filter.r#type {
        Type::RequestHeaderModifier | Type::ResponseHeaderModifier => {
            header_change(at, filter, faults)
        }
        Type::RequestRedirect => {
            let spec = filter.request_redirect.as_ref()?;
            redirect(&format!("{at}.requestRedirect"), spec, around, faults).map(Filter::Redirect)
        }
        Type::UrlRewrite => {
            let spec = filter.url_rewrite.as_ref()?;
            Some(Filter::Rewrite(rewrite(
                &format!("{at}.urlRewrite"),
                spec,
                around,
                faults,
            )))
        }
        Type::RequestMirror => {
            let spec = filter.request_mirror.as_ref()?;
            mirror(&format!("{at}.requestMirror"), spec, around, faults).map(Filter::Mirror)
        }
        Type::Cors => {
            faults.value(
                format!("{at}.type"),
                "CORS is not supported as a filter: use a Policy of type cors",
            );
            None
        }
        Type::ExtensionRef => {
            faults.value(
                format!("{at}.type"),
                "ExtensionRef is not supported: a Policy attaches what is not in the Gateway API",
            );
            None
        }
    }
}

fn header_change(at: &str, filter: &SpecFilter, faults: &mut Faults) -> Option<Filter> {
    if let Some(spec) = &filter.request_header_modifier {
        let at = format!("{at}.requestHeaderModifier");
        let set = spec
            .set
            .iter()
            .flatten()
            .map(|header| (&header.name, &header.value));
        let add = spec
            .add
            .iter()
            .flatten()
            .map(|header| (&header.name, &header.value));
        let change = HeaderChange {
            set: headers(&format!("{at}.set"), set, faults),
            add: headers(&format!("{at}.add"), add, faults),
            remove: removed(&at, spec.remove.as_deref().unwrap_or_default(), faults),
        };
        return Some(Filter::RequestHeaders(change));
    }
    let spec = filter.response_header_modifier.as_ref()?;
    let at = format!("{at}.responseHeaderModifier");
    let set = spec
        .set
        .iter()
        .flatten()
        .map(|header| (&header.name, &header.value));
    let add = spec
        .add
        .iter()
        .flatten()
        .map(|header| (&header.name, &header.value));
    Some(Filter::ResponseHeaders(HeaderChange {
        set: headers(&format!("{at}.set"), set, faults),
        add: headers(&format!("{at}.add"), add, faults),
        remove: removed(&at, spec.remove.as_deref().unwrap_or_default(), faults),
    }))
}

/// Headers with lower-case names; of equivalent names only the first counts.
fn headers<'a>(
    at: &str,
    headers: impl Iterator<Item = (&'a String, &'a String)>,
    faults: &mut Faults,
) -> Vec<Header> {
    let mut kept: Vec<Header> = Vec::new();
    for (index, (name, value)) in headers.enumerate() {
        let name = name.to_ascii_lowercase();
        if kept.iter().any(|other| other.name == name) {
            continue;
        }
        faults.check(
            format!("{at}[{index}].name"),
            http::modifiable_header(&name),
        );
        faults.check(format!("{at}[{index}].value"), http::header_value(value));
        let value = value.clone();
        kept.push(Header { name, value });
    }
    kept
}

fn removed(at: &str, names: &[String], faults: &mut Faults) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let name = name.to_ascii_lowercase();
        faults.check(
            format!("{at}.remove[{index}]"),
            http::modifiable_header(&name),
        );
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

fn mirror(
    at: &str,
    spec: &SpecMirror,
    around: &Surroundings<'_>,
    faults: &mut Faults,
) -> Option<Mirror> {
    let reference = Reference {
        group: spec.backend_ref.group.as_deref(),
        kind: spec.backend_ref.kind.as_deref(),
        namespace: spec.backend_ref.namespace.as_deref(),
        name: &spec.backend_ref.name,
        port: spec.backend_ref.port,
    };
    let fraction = match share(spec) {
        Ok(fraction) => fraction,
        Err(message) => {
            faults.value(at, message);
            return None;
        }
    };
    let backend = reference.target(&format!("{at}.backendRef"), around.namespace, faults)?;
    Some(Mirror { backend, fraction })
}

/// The share of requests that is mirrored; none: all.
fn share(spec: &SpecMirror) -> Result<Option<(u32, u32)>, &'static str> {
    let (numerator, denominator) = match (spec.percent, &spec.fraction) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err("must not have both percent and fraction: keep one"),
        (Some(percent), None) => (percent, 100),
        (None, Some(fraction)) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
    };
    match (u32::try_from(numerator), u32::try_from(denominator)) {
        (Ok(n), Ok(d)) if d > 0 && n <= d => Ok(Some((n, d))),
        _ => Err("percent must be 0 to 100, and a fraction between 0 and 1"),
    }
}

fn name(r#type: &Type) -> &'static str {
    match r#type {
        Type::RequestHeaderModifier => "RequestHeaderModifier",
        Type::ResponseHeaderModifier => "ResponseHeaderModifier",
        Type::RequestMirror => "RequestMirror",
        Type::RequestRedirect => "RequestRedirect",
        Type::UrlRewrite => "URLRewrite",
        Type::ExtensionRef => "ExtensionRef",
        Type::Cors => "CORS",
    }
}
