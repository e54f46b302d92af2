//! Resources as JSON that people read: `chiton render`, `chiton diff`, golden files.
//!
//! Names are those of the proto files (as in Envoy's documentation), types in `Any` are opened,
//! keys are sorted, and private keys and API keys are not there.
//!
//! The types come from `descriptors.bin`, a part of what `envoy-types` ships: the files that our
//! messages need, without comments and options. A test makes it again and compares; with
//! `CHITON_UPDATE_DESCRIPTORS=1` the test writes it.

use super::pb::google::protobuf::Any;
use super::secrets::FIELDS;
use chiton_xds::Resource;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage,
    SerializeOptions, Value,
};
use serde_json::{Map, Value as Json};
use std::sync::LazyLock;

static DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

static POOL: LazyLock<Result<DescriptorPool, String>> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).map_err(|error| error.to_string()));

/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";

/// Why a resource cannot be printed: it was not encoded here.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The descriptors of this program are damaged.
    #[error("the built-in descriptors cannot be read: {0}")]
    Descriptors(String),
    /// A message of a type that is not among the descriptors.
    #[error("type {0:?} is not known")]
    UnknownType(String),
    /// Bytes that are not of the type that they claim.
    #[error("a message of type {0} cannot be decoded: {1}")]
    Decode(String, prost::DecodeError),
    /// A value that JSON has no form for.
    #[error("a message of type {0} has no JSON form: {1}")]
    Json(String, serde_json::Error),
}

/// The resource as JSON.
pub fn print(resource: &Resource) -> Result<Json, PrintError> {
    open(&Any {
        type_url: resource.name.kind.type_url().to_owned(),
        value: resource.body.to_vec(),
    })
}

/// A message of any type, with its type under `@type`.
fn open(any: &Any) -> Result<Json, PrintError> {
    // Envoy gives an empty one a meaning of its own: see `filters::on`.
    if any.type_url.is_empty() {
        return Ok(Json::Object(Map::new()));
    }
    let descriptor = descriptor(&any.type_url)?;
    let message = decode(descriptor, &any.value)?;
    let mut printed = Map::new();
    printed.insert("@type".into(), any.type_url.clone().into());
    match self::message(&message)? {
        Json::Object(fields) => printed.extend(fields),
        value => {
            printed.insert("value".into(), value);
        }
    }
    Ok(Json::Object(printed))
}

fn descriptor(type_url: &str) -> Result<MessageDescriptor, PrintError> {
    let pool = POOL
        .as_ref()
        .map_err(|error| PrintError::Descriptors(error.clone()))?;
    let name = type_url.rsplit('/').next().unwrap_or(type_url);
    pool.get_message_by_name(name)
        .ok_or_else(|| PrintError::UnknownType(type_url.to_owned()))
}

fn decode(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, PrintError> {
    let name = descriptor.full_name().to_owned();
    DynamicMessage::decode(descriptor, bytes).map_err(|error| PrintError::Decode(name, error))
}

fn message(message: &DynamicMessage) -> Result<Json, PrintError> {
    let descriptor = message.descriptor();
    let name = descriptor.full_name();
    if name == "google.protobuf.Any" {
        return match message.transcode_to::<Any>() {
            Ok(any) => open(&any),
            Err(error) => Err(PrintError::Decode(name.to_owned(), error)),
        };
    }
    // Durations, wrappers and structs have forms of their own.
    if name.starts_with("google.protobuf.") {
        let options = SerializeOptions::new();
        let json = message
            .serialize_with_options(serde_json::value::Serializer, &options)
            .map_err(|error| PrintError::Json(name.to_owned(), error))?;
        return Ok(sorted(json));
    }
    let mut fields = Vec::new();
    for (field, value) in message.fields() {
        let value = if FIELDS.contains(&(name, field.name())) {
            REDACTED.into()
        } else {
            self::value(value, &field.kind())?
        };
        fields.push((field.name().to_owned(), value));
    }
    Ok(object(fields))
}

fn value(value: &Value, kind: &Kind) -> Result<Json, PrintError> {
    Ok(match value {
        Value::Bool(value) => (*value).into(),
        Value::I32(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::U64(value) => (*value).into(),
        Value::F32(value) => (*value).into(),
        Value::F64(value) => (*value).into(),
        Value::String(value) => value.clone().into(),
        Value::Bytes(bytes) => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD
                .encode(bytes)
                .into()
        }
        Value::EnumNumber(number) => kind
            .as_enum()
            .and_then(|kind| kind.get_value(*number))
            .map_or_else(|| (*number).into(), |value| value.name().into()),
        Value::Message(value) => message(value)?,
        Value::List(values) => values
            .iter()
            .map(|item| self::value(item, kind))
            .collect::<Result<_, _>>()?,
        Value::Map(entries) => {
            let kind = kind
                .as_message()
                .map_or(Kind::String, |entry| entry.map_entry_value_field().kind());
            let mut fields = Vec::new();
            for (key, item) in entries {
                fields.push((self::key(key), self::value(item, &kind)?));
            }
            object(fields)
        }
    })
}

fn key(key: &MapKey) -> String {
    match key {
        MapKey::String(key) => key.clone(),
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
    }
}

/// An object whose keys are in order whether or not JSON objects keep the order of insertion.
fn object(mut fields: Vec<(String, Json)>) -> Json {
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    Json::Object(fields.into_iter().collect())
}

fn sorted(json: Json) -> Json {
    match json {
        Json::Object(fields) => object(
            fields
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect(),
        ),
        Json::Array(values) => values.into_iter().map(sorted).collect(),
        other => other,
    }
}

#[cfg(test)]
#[path = "print_tests.rs"]
mod tests;
