//! Decoding the few input objects that the host reads itself.

use crate::store::Object;
use serde::de::DeserializeOwned;

/// Decodes what the host needs of an object that it does not own; other fields are not looked at.
///
/// # Errors
/// What is wrong, for people.
pub fn lenient<T: DeserializeOwned>(object: &Object) -> Result<T, String> {
    if let Some(problem) = &object.problem {
        return Err(problem.clone());
    }
    let mut json = serde_json::Deserializer::from_slice(&object.body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())
}

/// Decodes an object whose `spec` must hold nothing that is not understood: a field that is spelled
/// wrongly must not silently allow or send more than was meant.
///
/// # Errors
/// What is wrong, for people.
pub fn strict<T: DeserializeOwned>(object: &Object) -> Result<T, String> {
    if let Some(problem) = &object.problem {
        return Err(problem.clone());
    }
    let mut unknown = None;
    let mut json = serde_json::Deserializer::from_slice(&object.body);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let decoded = serde_ignored::deserialize(tracked, |path| {
        let path = path.to_string();
        if unknown.is_none() && path.starts_with("spec.") {
            unknown = Some(path);
        }
    });
    match (decoded, unknown) {
        (Err(error), _) => Err(format!("{}: {error}", track.path())),
        (Ok(_), Some(path)) => Err(format!("{path}: unknown field")),
        (Ok(decoded), None) => Ok(decoded),
    }
}
