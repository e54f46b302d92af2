//! Which resources hold secrets: what is printed and what is written to a disk depends on it.
//!
//! Whoever adds an effect that has a secret in it adds the field and the message here.

use chiton_xds::{Resource, ResourceType};
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Fields that hold secrets, by message.
pub(super) const FIELDS: [(&str, &str); 2] = [
    (
        "envoy.extensions.transport_sockets.tls.v3.TlsCertificate",
        "private_key",
    ),
    (
        "envoy.extensions.filters.http.api_key_auth.v3.Credential",
        "key",
    ),
];

/// The type under which such fields get into resources other than `Secret`. A body that holds such a
/// message holds its name.
static API_KEYS: LazyLock<Finder> = LazyLock::new(|| {
    Finder::new("envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute")
});

/// Whether a resource holds secrets, or could.
#[must_use]
pub fn holds_secrets(resource: &Resource) -> bool {
    resource.name.kind == ResourceType::Secret || API_KEYS.find(&resource.body).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synchronizer::envoy::pb::envoy::extensions::filters::http::api_key_auth::v3::ApiKeyAuthPerRoute;
    use prost::Name as _;

    #[test]
    fn the_name_that_is_looked_for_is_that_of_the_message() {
        assert_eq!(
            API_KEYS.needle(),
            ApiKeyAuthPerRoute::full_name().as_bytes()
        );
    }
}
