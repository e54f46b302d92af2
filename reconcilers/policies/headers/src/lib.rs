//! The `headers` policy: sets, adds and removes request and response headers.
//!
//! ```yaml
//! type: headers
//! targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
//! default:
//!   request: {set: [{name: x-tenant, value: blue}]}
//!   response: {add: [{name: x-served-by, value: chiton}], remove: [server]}
//! ```
//!
//! Names go first removed, then set, then added. `host` and pseudo headers cannot be changed.

use chiton_guest::headers::check_change;
use chiton_guest::ir::policy::Effect;
use chiton_guest::ir::route::HeaderChange;
use chiton_guest::{Context, Error, Policy};
use schemars::JsonSchema;
use serde::Deserialize;

/// The policy.
pub struct Headers;

/// What may stand under `default` and `override`. At least one of the two is needed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What happens to headers of requests, before the backend sees them.
    #[serde(default)]
    request: Option<HeaderChange>,
    /// What happens to headers of responses, before the client sees them.
    #[serde(default)]
    response: Option<HeaderChange>,
}

impl Policy for Headers {
    type Settings = Settings;
    const NAME: &'static str = "headers";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn effects(settings: Settings, _: &mut Context) -> Result<Vec<Effect>, Error> {
        let request = checked("request", settings.request)?.map(Effect::RequestHeaders);
        let response = checked("response", settings.response)?.map(Effect::ResponseHeaders);
        let effects: Vec<Effect> = request.into_iter().chain(response).collect();
        if effects.is_empty() {
            return Err(Error::invalid(
                "changes nothing: give `request` or `response`",
            ));
        }
        Ok(effects)
    }
}

fn checked(place: &str, change: Option<HeaderChange>) -> Result<Option<HeaderChange>, Error> {
    if let Some(change) = &change {
        check_change(change).map_err(|problem| Error::invalid(format!("{place}.{problem}")))?;
    }
    Ok(change)
}

chiton_guest::export!(Headers);

#[cfg(test)]
mod tests;
