//! Strict decoding: an object is understood wholly or refused.
//!
//! A file is checked by no API server, and a misspelt field that is ignored may widen a route or
//! drop a policy. So a wrong type, an unknown enum value and an unknown field are all refused, and
//! the message has the JSON path: `spec.rules[0].matchs: unknown field`.

use chiton_ir::Condition;
use chiton_ir::condition::words;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_ignored::Path;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Unknown fields that are named in one message.
const MAX_NAMED: usize = 8;

/// A Kubernetes object of which the spec is `S`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<S> {
    /// API group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Metadata.
    pub metadata: Metadata,
    /// What the author wrote.
    pub spec: S,
}

/// The metadata that reconcilers ask about; the rest is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default)]
    pub namespace: String,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Number of the spec's change.
    #[serde(default)]
    pub generation: i64,
}

/// Decodes an object, or gives the condition to return for it: `Accepted=False`, with the reason
/// `UnsupportedValue` for an unknown enum value or field, else `Invalid`. Fields of `metadata` and
/// `status` that `T` does not know are left alone.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Condition> {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(body);
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let decoded = serde_ignored::deserialize(tracked, |path| unknown.push(dotted(&path)));
    let value = decoded.map_err(|error| {
        // The position in compact JSON that nobody wrote says less than the path.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let reason =
            if message.starts_with("unknown variant") || message.starts_with("unknown field") {
                words::UNSUPPORTED_VALUE
            } else {
                words::INVALID
            };
        let path = track.path().to_string();
        let place = if path == "." { "object" } else { path.as_str() };
        Condition::fails(words::ACCEPTED, reason, format!("{place}: {message}"))
    })?;
    unknown.retain(|path| !left_alone(path));
    if unknown.is_empty() {
        return Ok(value);
    }
    let more = unknown.len().saturating_sub(MAX_NAMED);
    unknown.truncate(MAX_NAMED);
    let mut message = format!("{}: unknown field", unknown.join(", "));
    if more > 0 {
        let _ = write!(message, ", and {more} more");
    }
    Err(Condition::fails(
        words::ACCEPTED,
        words::UNSUPPORTED_VALUE,
        message,
    ))
}

/// Decodes what `T` knows of an object.
pub(crate) fn lenient<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn left_alone(path: &str) -> bool {
    path == "status" || path.starts_with("status.") || path.starts_with("metadata.")
}

/// A path as people write it: `spec.rules[0].matchs`.
fn dotted(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", dotted(parent)),
        Path::Map { parent, key } => match dotted(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => dotted(parent),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Spec {
        #[serde(default)]
        rules: Vec<Rule>,
        #[serde(default)]
        mode: Option<Mode>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Rule {
        #[serde(default)]
        port: Option<u16>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Mode {
        On,
    }

    fn refusal(spec: &str) -> (String, String) {
        let body = format!(r#"{{"metadata":{{"name":"a","uid":"u"}},"spec":{spec}}}"#);
        let condition = decode::<Object<Spec>>(body.as_bytes()).expect_err("refused");
        assert_eq!(condition.r#type, "Accepted");
        (condition.reason, condition.message)
    }

    #[test]
    fn what_is_understood_passes() {
        let body = br#"{"metadata":{"name":"a","finalizers":[]},"status":{"x":1},"spec":{"rules":[{"port":1}],"mode":"On"}}"#;
        let object: Object<Spec> = decode(body).expect("decodes");
        assert_eq!(object.spec.rules, [Rule { port: Some(1) }]);
        assert_eq!(object.spec.mode, Some(Mode::On));
    }

    #[test]
    fn an_unknown_field_is_named_with_its_path() {
        let (reason, message) = refusal(r#"{"rules":[{},{"prot":1}]}"#);
        assert_eq!(reason, "UnsupportedValue");
        assert_eq!(message, "spec.rules[1].prot: unknown field");
    }

    #[test]
    fn many_unknown_fields_do_not_make_a_long_message() {
        let fields: Vec<String> = (0..20).map(|i| format!(r#""f{i}":1"#)).collect();
        let (_, message) = refusal(&format!("{{{}}}", fields.join(",")));
        assert!(message.ends_with("and 12 more"), "{message}");
    }

    #[test]
    fn an_unknown_enum_value_is_unsupported() {
        let (reason, message) = refusal(r#"{"mode":"Off"}"#);
        assert_eq!(reason, "UnsupportedValue");
        assert_eq!(message, "spec.mode: unknown variant `Off`, expected `On`");
    }

    #[test]
    fn a_wrong_type_is_invalid() {
        let (reason, message) = refusal(r#"{"rules":[{"port":70000}]}"#);
        assert_eq!(reason, "Invalid");
        assert_eq!(
            message,
            "spec.rules[0].port: invalid value: integer `70000`, expected u16"
        );
    }
}
