//! An example policy: adds the response header `x-hello` with a text.
//!
//! ```yaml
//! type: hello
//! targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
//! default: {text: good morning}
//! ```
//!
//! Built with `HELLO_VERSION` in the environment it is a version of that name, which adds its name
//! to the text: something to swap to while traffic flows.

use chiton_guest::headers::check_change;
use chiton_guest::ir::policy::Effect;
use chiton_guest::ir::route::{Header, HeaderChange};
use chiton_guest::{Context, Error, Policy};
use schemars::JsonSchema;
use serde::Deserialize;

/// Name of the version, where it is not the crate's.
const NAMED: Option<&str> = option_env!("HELLO_VERSION");

/// The policy.
pub struct Hello;

/// What may stand under `default` and `override`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What to say.
    #[schemars(length(min = 1, max = 200))]
    text: String,
}

impl Policy for Hello {
    type Settings = Settings;
    const NAME: &'static str = "hello";
    const VERSION: &'static str = match NAMED {
        Some(version) => version,
        None => env!("CARGO_PKG_VERSION"),
    };

    fn effects(settings: Settings, _: &mut Context) -> Result<Vec<Effect>, Error> {
        let value = match NAMED {
            Some(version) => format!("{} (version {version})", settings.text),
            None => settings.text,
        };
        let change = HeaderChange {
            set: vec![Header {
                name: "x-hello".into(),
                value,
            }],
            ..HeaderChange::default()
        };
        check_change(&change).map_err(Error::invalid)?;
        Ok(vec![Effect::ResponseHeaders(change)])
    }
}

chiton_guest::export!(Hello);

#[cfg(test)]
mod tests {
    use super::*;
    use chiton_guest::testing::World;

    #[test]
    fn it_says_hello() {
        let run = World::new().policy_with::<Hello>("{text: good morning}");
        let [Effect::ResponseHeaders(change)] = &run.effects()[..] else {
            panic!("one effect: {run:?}");
        };
        assert_eq!(change.set[0].value, "good morning");
    }

    #[test]
    fn a_text_that_would_split_the_response_is_refused() {
        let run = World::new().policy_with::<Hello>(r#"{text: "a\r\nset-cookie: b"}"#);
        assert!(run.refusal().starts_with("spec.default: set[0].value: "));
    }
}
