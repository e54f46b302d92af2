//! Changes of headers: on routes (`HTTPRoute` filters) and as filter settings (policies).

use super::pb::envoy::config::common::mutation_rules::v3 as rules;
use super::pb::envoy::config::core::v3 as core;
use super::pb::envoy::extensions::filters::http::header_mutation::v3 as mutation;
use core::header_value_option::HeaderAppendAction;

use chiton_ir::route::{Filter, Header, HeaderChange};

/// Changes of one direction, as routes and weighted clusters take them.
#[derive(Debug, Default, PartialEq)]
pub struct Native {
    pub add: Vec<core::HeaderValueOption>,
    pub remove: Vec<String>,
}

/// Changes of requests and of responses among filters, in order: what is later wins.
pub fn native<'a>(filters: impl IntoIterator<Item = &'a Vec<Filter>>) -> (Native, Native) {
    let (mut request, mut response) = (Native::default(), Native::default());
    for filter in filters.into_iter().flatten() {
        match filter {
            Filter::RequestHeaders(change) => request.extend(change),
            Filter::ResponseHeaders(change) => response.extend(change),
            Filter::Redirect(_) | Filter::Rewrite(_) | Filter::Mirror(_) => {}
        }
    }
    (request, response)
}

impl Native {
    /// Envoy removes before it adds, so what an earlier change added is taken out here.
    fn extend(&mut self, change: &HeaderChange) {
        for name in &change.remove {
            self.add.retain(|added| {
                added
                    .header
                    .as_ref()
                    .is_none_or(|header| !header.key.eq_ignore_ascii_case(name))
            });
            self.remove.push(name.to_ascii_lowercase());
        }
        self.add.extend(values(change));
    }
}

/// Settings of the header mutation filter: removed, then set, then added.
pub fn mutations(change: &HeaderChange) -> Vec<rules::HeaderMutation> {
    let removed = change
        .remove
        .iter()
        .map(|name| rules::header_mutation::Action::Remove(name.to_ascii_lowercase()));
    let added = values(change).map(rules::header_mutation::Action::Append);
    removed
        .chain(added)
        .map(|action| rules::HeaderMutation {
            action: Some(action),
        })
        .collect()
}

/// Header mutation of requests.
pub fn of_requests(change: &HeaderChange) -> mutation::HeaderMutationPerRoute {
    mutation::HeaderMutationPerRoute {
        mutations: Some(mutation::Mutations {
            request_mutations: mutations(change),
            ..Default::default()
        }),
    }
}

/// Header mutation of responses.
pub fn of_responses(change: &HeaderChange) -> mutation::HeaderMutationPerRoute {
    mutation::HeaderMutationPerRoute {
        mutations: Some(mutation::Mutations {
            response_mutations: mutations(change),
            ..Default::default()
        }),
    }
}

fn values(change: &HeaderChange) -> impl Iterator<Item = core::HeaderValueOption> {
    let set = change
        .set
        .iter()
        .map(|header| value(header, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = change
        .add
        .iter()
        .map(|header| value(header, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add)
}

fn value(header: &Header, action: HeaderAppendAction) -> core::HeaderValueOption {
    core::HeaderValueOption {
        header: Some(core::HeaderValue {
            key: header.name.to_ascii_lowercase(),
            // Envoy takes values for format strings, in which `%` starts a command.
            value: header.value.replace('%', "%%"),
            raw_value: Vec::new(),
        }),
        append_action: action.into(),
        keep_empty_value: true,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> Header {
        Header {
            name: name.into(),
            value: value.into(),
        }
    }

    #[test]
    fn a_percent_sign_is_no_command_and_names_are_lower_case() {
        let change = HeaderChange {
            set: vec![header("X-Discount", "10%")],
            add: vec![header("x-b", "b")],
            remove: vec!["X-Gone".into()],
        };
        let (request, response) = native([&vec![Filter::RequestHeaders(change.clone())]]);
        assert_eq!(response, Native::default());
        assert_eq!(request.remove, ["x-gone"]);
        let first = request.add[0].header.as_ref();
        assert_eq!(first.map(|h| h.key.as_str()), Some("x-discount"));
        assert_eq!(first.map(|h| h.value.as_str()), Some("10%%"));
        assert_eq!(
            request.add[0].append_action(),
            HeaderAppendAction::OverwriteIfExistsOrAdd
        );
        assert_eq!(
            request.add[1].append_action(),
            HeaderAppendAction::AppendIfExistsOrAdd
        );
        let later = HeaderChange {
            remove: vec!["X-B".into()],
            ..HeaderChange::default()
        };
        let both = vec![
            Filter::ResponseHeaders(change.clone()),
            Filter::ResponseHeaders(later),
        ];
        let (_, response) = native([&both]);
        assert_eq!(response.add.len(), 1);
        assert_eq!(response.remove, ["x-gone", "x-b"]);
        assert_eq!(mutations(&change).len(), 3);
        assert!(matches!(
            mutations(&change)[0].action,
            Some(rules::header_mutation::Action::Remove(_))
        ));
    }
}
