//! An example policy: sets the response header `x-hello`.
//!
//! ```yaml
//! type: hello
//! targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
//! default: {text: world}
//! ```
//!
//! Built with `HELLO_VERSION` in the environment it is a version of that name that says a little
//! more: something to swap to while traffic flows.

use chiton_guest::prelude::*;

/// Name of the version, where it is not the crate's.
const NAMED: Option<&str> = option_env!("HELLO_VERSION");

/// The policy.
pub struct Hello;

/// What may stand under `default` and `override`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What the header says.
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
        let text = match NAMED {
            Some(_) => format!("Hello, {}!", settings.text),
            None => settings.text,
        };
        Ok(vec![set_response_header("x-hello", &text)?])
    }
}

chiton_guest::export!(Hello);

#[cfg(test)]
mod tests {
    use super::*;
    use chiton_guest::testing::World;

    #[test]
    fn it_says_hello() {
        let run = World::new().policy_with::<Hello>("{text: world}");
        let expected = set_response_header("x-hello", "world").unwrap();
        assert_eq!(run.effects(), [expected]);
    }

    #[test]
    fn a_text_that_would_split_the_response_is_refused() {
        let run = World::new().policy_with::<Hello>(r#"{text: "a\r\nset-cookie: b"}"#);
        assert!(run.refusal().contains("must not have control characters"));
    }
}
