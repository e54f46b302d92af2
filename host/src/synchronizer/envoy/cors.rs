//! The `cors` effect as Envoy's CORS policy.

use super::pb::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use super::pb::envoy::r#type::matcher::v3::StringMatcher;
use super::regex::escape;
use super::wire::{boolean, exact, matches};
use chiton_ir::policy::Cors;

/// The policy. A preflight from an origin that is not allowed is answered too, without CORS
/// headers, so that no backend is asked about origins behind the policy's back. Envoy's filter does
/// nothing on routes that do not forward: redirects and fixed answers have no CORS headers.
pub fn policy(cors: &Cors) -> CorsPolicy {
    CorsPolicy {
        allow_origin_string_match: cors.allow_origins.iter().map(|o| origin(o)).collect(),
        allow_methods: cors.allow_methods.join(", "),
        allow_headers: cors.allow_headers.join(", "),
        expose_headers: cors.expose_headers.join(", "),
        max_age: cors
            .max_age_seconds
            .map(|seconds| seconds.to_string())
            .unwrap_or_default(),
        allow_credentials: Some(boolean(cors.allow_credentials)),
        forward_not_matching_preflights: Some(boolean(false)),
        ..Default::default()
    }
}

/// `*` is any origin (Envoy's filter knows the exact string); in `https://*.a.example` it is one or
/// more labels; `https://*` is every host, with a port or not.
fn origin(origin: &str) -> StringMatcher {
    match origin.split_once('*') {
        None => exact(origin),
        Some(("", "")) => exact("*"),
        Some((before, "")) => matches(format!("{}[^/]+", escape(before))),
        Some((before, after)) => {
            matches(format!("{}[A-Za-z0-9.-]+{}", escape(before), escape(after)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_labels_and_the_rest_for_itself() {
        assert_eq!(origin("*"), exact("*"));
        assert_eq!(origin("https://a.example"), exact("https://a.example"));
        assert_eq!(
            origin("https://*.a.example"),
            matches(r"https://[A-Za-z0-9.-]+\.a\.example")
        );
        assert_eq!(origin("https://*"), matches("https://[^/]+"));
    }
}
