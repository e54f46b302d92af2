//! What a route does with a request.

use super::cluster::UNRESOLVED_CLUSTER;
use super::headers;
use super::pb::envoy::config::core::v3::{DataSource, data_source::Specifier};
use super::pb::envoy::config::route::v3 as route;
use super::rewrite::{PathRewrite, rewrite};
use super::wire::{milliseconds, number, seconds, share};
use crate::synchronizer::model::{Action, RouteEntry, WeightedCluster};
use chiton_ir::route::{Filter, Rewrite, Timeouts};
use route::route_action::{ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy};

/// Longest body of a fixed answer: Envoy's own limit.
pub const MAX_BODY: usize = 4_096;

/// A fixed answer.
pub fn respond(status: u16, body: &str) -> route::route::Action {
    let mut end = body.len().min(MAX_BODY);
    while !body.is_char_boundary(end) {
        end -= 1;
    }
    let body = body.get(..end).unwrap_or_default();
    route::route::Action::DirectResponse(route::DirectResponseAction {
        status: status.clamp(200, 599).into(),
        body: (!body.is_empty()).then(|| DataSource {
            specifier: Some(Specifier::InlineString(body.to_owned())),
            ..Default::default()
        }),
        body_format: None,
    })
}

/// Forwarding to backends.
///
/// The share of broken backends goes to a cluster that never exists, which Envoy answers with 500:
/// so the share is as exact as the weights are.
pub fn forward(
    entry: &RouteEntry,
    clusters: &[WeightedCluster],
    broken: u64,
) -> route::route::Action {
    let change = rewrite_filter(entry);
    let path = change.and_then(|change| change.path.as_ref());
    let mut action = route::RouteAction {
        cluster_not_found_response_code:
            route::route_action::ClusterNotFoundResponseCode::InternalServerError.into(),
        cluster_specifier: Some(specifier(&entry.filters, clusters, broken)),
        host_rewrite_specifier: change
            .and_then(|change| change.hostname.clone())
            .map(HostRewriteSpecifier::HostRewriteLiteral),
        request_mirror_policies: entry
            .mirrors
            .iter()
            .map(|(cluster, fraction)| mirror(cluster, *fraction))
            .collect(),
        ..limits(entry.timeouts)
    };
    match rewrite(&entry.prefix, &entry.matches.path, path) {
        Some(PathRewrite::Prefix(prefix)) => action.prefix_rewrite = prefix,
        Some(PathRewrite::Regex(regex)) => action.regex_rewrite = Some(regex),
        None => {}
    }
    route::route::Action::Route(action)
}

fn rewrite_filter(entry: &RouteEntry) -> Option<&Rewrite> {
    entry.filters.iter().find_map(|filter| match filter {
        Filter::Rewrite(rewrite) => Some(rewrite),
        _ => None,
    })
}

/// Time limits. Envoy's own default of 15 s is not the Gateway API's, which has none.
///
/// A stream that is silent for five minutes ends all the same (see [`super::listener`]), unless the
/// rule has a limit that is longer, or says that it wants none.
fn limits(timeouts: Timeouts) -> route::RouteAction {
    /// The listener's limit for silence.
    const SILENCE_MS: u64 = 300_000;
    let silent = timeouts
        .request_ms
        .is_some_and(|limit| limit == 0 || limit > SILENCE_MS);
    route::RouteAction {
        timeout: Some(milliseconds(timeouts.request_ms.unwrap_or(0))),
        idle_timeout: silent.then(|| seconds(0)),
        retry_policy: timeouts
            .backend_request_ms
            .filter(|limit| *limit > 0)
            .map(|limit| route::RetryPolicy {
                num_retries: Some(number(0)),
                per_try_timeout: Some(milliseconds(limit)),
                ..Default::default()
            }),
        ..Default::default()
    }
}

fn mirror(cluster: &str, fraction: Option<(u32, u32)>) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: cluster.to_owned(),
        runtime_fraction: fraction.map(|(part, whole)| share(part, whole)),
        // Envoy would append `-shadow` to the host.
        disable_shadow_host_suffix_append: true,
        ..Default::default()
    }
}

/// Whether one of the backends has filters of its own. Envoy changes headers for a backend before
/// it changes them for the route; the Gateway API has it the other way round. So with such filters
/// the route's stand at each backend, in front of its own.
pub fn filters_of_backends(action: &Action) -> bool {
    matches!(action, Action::Forward { clusters, .. } if have_filters(clusters))
}

fn have_filters(clusters: &[WeightedCluster]) -> bool {
    clusters.iter().any(|cluster| !cluster.filters.is_empty())
}

fn specifier(filters: &Vec<Filter>, clusters: &[WeightedCluster], broken: u64) -> ClusterSpecifier {
    let own = have_filters(clusters);
    if let ([only], 0, false) = (clusters, broken, own) {
        return ClusterSpecifier::Cluster(only.cluster.clone());
    }
    let total = clusters
        .iter()
        .fold(broken, |sum, c| sum.saturating_add(c.weight.into()));
    // Envoy wants the sum in 32 bits; what is more is scaled, and nothing is scaled to nothing.
    let divisor = total / u64::from(u32::MAX) + 1;
    let scaled = |weight: u64| {
        let weight = (weight / divisor).max(u64::from(weight > 0));
        number(u32::try_from(weight).unwrap_or(u32::MAX))
    };
    let mut weighted: Vec<_> = clusters
        .iter()
        .map(|cluster| {
            let (request, response) = if own {
                headers::native([filters, &cluster.filters])
            } else {
                Default::default()
            };
            route::weighted_cluster::ClusterWeight {
                name: cluster.cluster.clone(),
                weight: Some(scaled(cluster.weight.into())),
                request_headers_to_add: request.add,
                request_headers_to_remove: request.remove,
                response_headers_to_add: response.add,
                response_headers_to_remove: response.remove,
                ..Default::default()
            }
        })
        .collect();
    if broken > 0 {
        weighted.push(route::weighted_cluster::ClusterWeight {
            name: UNRESOLVED_CLUSTER.into(),
            weight: Some(scaled(broken)),
            ..Default::default()
        });
    }
    ClusterSpecifier::WeightedClusters(route::WeightedCluster {
        clusters: weighted,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn cluster(name: &str, weight: u32) -> WeightedCluster {
        WeightedCluster {
            cluster: name.into(),
            weight,
            filters: Vec::new(),
        }
    }

    fn weights(clusters: &[WeightedCluster], broken: u64) -> Vec<(String, u32)> {
        match specifier(&Vec::new(), clusters, broken) {
            ClusterSpecifier::WeightedClusters(weighted) => weighted
                .clusters
                .into_iter()
                .map(|c| (c.name, c.weight.expect("a weight").value))
                .collect(),
            ClusterSpecifier::Cluster(name) => vec![(name, 0)],
            _ => Vec::new(),
        }
    }

    #[test]
    fn weights_and_the_broken_share_stay_exact() {
        assert_eq!(weights(&[cluster("a", 5)], 0), [("a".to_owned(), 0)]);
        assert_eq!(
            weights(&[cluster("a", 1)], 2),
            [("a".to_owned(), 1), (UNRESOLVED_CLUSTER.to_owned(), 2)]
        );
        let huge = weights(&[cluster("a", 1), cluster("b", u32::MAX)], 1 << 33);
        assert!(huge.iter().all(|(_, weight)| *weight > 0));
        let sum: u64 = huge.iter().map(|(_, weight)| u64::from(*weight)).sum();
        assert!(sum <= u32::MAX.into());
    }

    #[test]
    fn without_a_limit_there_is_none() {
        let none = limits(Timeouts::default());
        assert_eq!(none.timeout, Some(seconds(0)));
        assert_eq!(none.retry_policy, None);
        assert_eq!(none.idle_timeout, None);
        let both = limits(Timeouts {
            request_ms: Some(600_000),
            backend_request_ms: Some(500),
        });
        assert_eq!(both.timeout, Some(seconds(600)));
        assert_eq!(both.idle_timeout, Some(seconds(0)));
        let retry = both.retry_policy.expect("a retry policy");
        assert_eq!(retry.per_try_timeout, Some(milliseconds(500)));
        assert_eq!(retry.num_retries, Some(number(0)));
    }

    #[test]
    fn a_body_is_cut_between_characters() {
        let body = "ü".repeat(3_000);
        let route::route::Action::DirectResponse(answer) = respond(99, &body) else {
            panic!("a direct response");
        };
        assert_eq!(answer.status, 200);
        let Some(Specifier::InlineString(body)) = answer.body.and_then(|b| b.specifier) else {
            panic!("a body");
        };
        assert_eq!(body.len(), MAX_BODY);
    }
}
