//! The `api-key` policy: lets requests with a known key in, and answers all others with 401.
//!
//! ```yaml
//! type: api-key
//! targetRefs: [{group: chiton.dev, kind: API, name: orders}]
//! override:
//!   secretRefs: [{name: clients}]
//!   in: header
//!   name: x-api-key
//!   clientHeader: x-client
//! ```
//!
//! Each entry of a Secret is one client: its name, and its key as the value. The policy hands on
//! references; the host reads the Secrets, so no key ever comes here.

use chiton_guest::ir::check::http::{header_name, modifiable_header};
use chiton_guest::ir::policy::{ApiKey as Effects, Effect, KeySource};
use chiton_guest::{Context, Error, ObjectRef, Policy};
use schemars::JsonSchema;
use serde::Deserialize;

/// The policy.
pub struct ApiKey;

/// What may stand under `default` and `override`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Secrets in the policy's namespace that have the keys.
    #[schemars(length(min = 1, max = 16))]
    secret_refs: Vec<SecretRef>,
    /// Where requests have their key.
    r#in: Place,
    /// Name of that header, query parameter or cookie.
    #[schemars(length(min = 1, max = 256))]
    name: String,
    /// The header that tells the backend which client it was; not sent unless given.
    client_header: Option<String>,
}

/// A Secret in the policy's namespace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SecretRef {
    #[schemars(length(min = 1))]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Place {
    Header,
    Query,
    Cookie,
}

impl Policy for ApiKey {
    type Settings = Settings;
    const NAME: &'static str = "api-key";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn effects(settings: Settings, cx: &mut Context) -> Result<Vec<Effect>, Error> {
        let count = settings.secret_refs.len();
        if !(1..=16).contains(&count) || settings.secret_refs.iter().any(|s| s.name.is_empty()) {
            return Err(Error::invalid("secretRefs: name 1 to 16 Secrets"));
        }
        header_name(&settings.name).map_err(|e| Error::invalid(format!("name: {e}")))?;
        if let Some(header) = &settings.client_header {
            modifiable_header(header).map_err(|e| Error::invalid(format!("clientHeader: {e}")))?;
        }
        let namespace = &cx.object().namespace;
        let secret = |secret: SecretRef| ObjectRef::new("", "Secret", namespace, secret.name);
        Ok(vec![Effect::ApiKey(Effects {
            secrets: settings.secret_refs.into_iter().map(secret).collect(),
            sources: vec![match settings.r#in {
                Place::Header => KeySource::Header(settings.name),
                Place::Query => KeySource::Query(settings.name),
                Place::Cookie => KeySource::Cookie(settings.name),
            }],
            client_header: settings.client_header,
        })])
    }
}

chiton_guest::export!(ApiKey);

#[cfg(test)]
mod tests;
