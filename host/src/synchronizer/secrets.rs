//! Reading Secrets.

use super::decode;
use crate::store::Object;
use base64::Engine as _;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Entries of a Secret by name, decoded.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// `stringData` is what people write into files; an API server turns it into `data`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    string_data: Option<BTreeMap<String, String>>,
}

/// The entries of a Secret.
///
/// # Errors
/// What is wrong with it, for people; never its content.
pub fn entries(object: &Object) -> Result<Entries, String> {
    // serde's own message could quote a value.
    let secret: Secret =
        decode::lenient(object).map_err(|_| "it cannot be read as a Secret".to_owned())?;
    let mut entries = Entries::new();
    for (name, value) in secret.data.unwrap_or_default() {
        // YAML block scalars leave line breaks in long values.
        let packed: String = value.split_ascii_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(packed)
            .map_err(|_| format!("data[{name}] is not base64"))?;
        entries.insert(name, bytes);
    }
    for (name, value) in secret.string_data.unwrap_or_default() {
        entries.insert(name, value.into_bytes());
    }
    Ok(entries)
}
