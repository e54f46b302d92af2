//! From a JSON document to objects, as an API server would have stored them.

#[cfg(test)]
mod tests;

use super::kinds;
use super::names;
use super::parse::Document;
use super::problem::printable;
use super::{MAX_CONFIG_MAP_BYTES, MAX_OBJECT_BYTES, Problem};
use crate::store::{Object, Origin};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chiton_ir::ObjectRef;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The label that the API server puts on every Namespace.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Objects, in order.
    pub objects: Vec<Arc<Object>>,
    /// What is wrong with documents and objects.
    pub problems: Vec<Problem>,
}

/// Reads all documents of a file.
pub fn contents(path: &Path, documents: Vec<Document>) -> Contents {
    let mut contents = Contents::default();
    let shared: Arc<Path> = path.into();
    for document in documents {
        let line = document.line;
        for value in flatten(document.value) {
            match object(&shared, line, value) {
                Ok(object) => {
                    if let Some(reason) = &object.problem {
                        let problem = Problem::new(path, reason, "").at(line).of(&object.key);
                        contents.problems.push(problem);
                    }
                    contents.objects.push(Arc::new(object));
                }
                Err(Nameless { reason, advice }) => {
                    let problem = Problem::new(path, reason, advice).at(line);
                    contents.problems.push(problem);
                }
            }
        }
    }
    contents
}

/// A Namespace that is used but was not given: an API server would have one.
pub fn implicit_namespace(name: &str) -> Arc<Object> {
    let body = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"labels": {NAMESPACE_LABEL: name}, "name": name},
    });
    Arc::new(Object {
        key: ObjectRef::new("", "Namespace", "", name).into(),
        api_version: "v1".into(),
        labels: [(NAMESPACE_LABEL, name)].into_iter().collect(),
        generation: 0,
        created: None,
        body: canonical(body).into(),
        problem: None,
        origin: None,
    })
}

/// Why a document is no object at all: it has no identity.
struct Nameless {
    reason: String,
    advice: &'static str,
}

fn nameless(reason: impl Into<String>, advice: &'static str) -> Nameless {
    Nameless {
        reason: reason.into(),
        advice,
    }
}

/// The items of a `List`, or the value itself. Items of a typed list (`HTTPRouteList`) that do not
/// say what they are get it from the list.
fn flatten(value: Value) -> Vec<Value> {
    let Value::Object(mut map) = value else {
        return vec![value];
    };
    let item_kind = match map.get("kind") {
        Some(Value::String(kind)) => kind.strip_suffix("List").map(str::to_owned),
        _ => None,
    };
    let (Some(item_kind), Some(Value::Array(_))) = (item_kind, map.get("items")) else {
        return vec![Value::Object(map)];
    };
    let Some(Value::Array(items)) = map.remove("items") else {
        return vec![Value::Object(map)];
    };
    let api_version = map.remove("apiVersion");
    items
        .into_iter()
        .map(|mut item| {
            if let Value::Object(fields) = &mut item
                && !item_kind.is_empty()
                && !fields.contains_key("kind")
            {
                fields.insert("kind".to_owned(), item_kind.clone().into());
                if let Some(api_version) = &api_version {
                    fields
                        .entry("apiVersion")
                        .or_insert_with(|| api_version.clone());
                }
            }
            item
        })
        .flat_map(flatten)
        .collect()
}

fn object(path: &Arc<Path>, line: usize, value: Value) -> Result<Object, Nameless> {
    let Value::Object(mut map) = value else {
        return Err(nameless(
            "is not a Kubernetes object",
            "write a mapping with apiVersion, kind and metadata",
        ));
    };
    let api_version = text_field(&map, "apiVersion", "apiVersion")?;
    let kind = text_field(&map, "kind", "kind")?;
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let cluster_scoped = kinds::is_cluster_scoped(group, &kind);
    let Some(Value::Object(metadata)) = map.get_mut("metadata") else {
        return Err(nameless(
            format!("{} has no metadata", printable(&kind)),
            "give it metadata.name",
        ));
    };
    let name = name_of(&kind, metadata)?;
    let namespace = namespace_of(metadata, cluster_scoped)?;
    metadata.remove("managedFields");
    metadata.remove("resourceVersion");
    map.remove("status");

    let key = ObjectRef::new(group, kind, namespace, name);
    let (labels, problem) = match complete(&key, &api_version, &mut map) {
        Ok(labels) => (labels, None),
        Err(problem) => (BTreeMap::new(), Some(problem)),
    };
    let body = canonical(Value::Object(map));
    let problem = problem.or_else(|| too_large(&key, body.len()));
    Ok(Object {
        key: key.into(),
        api_version: api_version.into(),
        labels: labels.into_iter().collect(),
        generation: 0,
        created: None,
        body: if problem.is_some() {
            Arc::default()
        } else {
            body.into()
        },
        problem,
        origin: Some(Origin {
            path: path.clone(),
            line,
        }),
    })
}

fn text_field(map: &Map<String, Value>, field: &str, path: &str) -> Result<String, Nameless> {
    match map.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        None | Some(Value::Null | Value::String(_)) => Err(nameless(
            format!("has no {path}"),
            "write a mapping with apiVersion, kind and metadata.name",
        )),
        Some(_) => Err(nameless(
            format!("{path} is not a string"),
            "write it in quotes",
        )),
    }
}

fn name_of(kind: &str, metadata: &Map<String, Value>) -> Result<String, Nameless> {
    let kind = printable(kind);
    match metadata.get("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
        None | Some(Value::Null | Value::String(_)) => {
            if metadata.contains_key("generateName") {
                return Err(nameless(
                    format!("{kind} has metadata.generateName, which only an API server can use"),
                    "give it metadata.name",
                ));
            }
            Err(nameless(
                format!("{kind} has no metadata.name"),
                "give it one",
            ))
        }
        Some(_) => Err(nameless(
            format!("{kind} has a metadata.name that is not a string"),
            "write it in quotes",
        )),
    }
}

/// The namespace, and writes it where it was left out; a cluster-scoped object has none.
fn namespace_of(
    metadata: &mut Map<String, Value>,
    cluster_scoped: bool,
) -> Result<String, Nameless> {
    if cluster_scoped {
        metadata.remove("namespace");
        return Ok(String::new());
    }
    match metadata.get("namespace") {
        Some(Value::String(namespace)) if !namespace.is_empty() => Ok(namespace.clone()),
        None | Some(Value::Null | Value::String(_)) => {
            metadata.insert("namespace".to_owned(), "default".into());
            Ok("default".to_owned())
        }
        Some(_) => Err(nameless(
            "has a metadata.namespace that is not a string",
            "write it in quotes",
        )),
    }
}

/// Checks what every kind has in common and does what an API server does when it stores the
/// object. Returns its labels, or why it cannot be given to a reconciler.
fn complete(
    key: &ObjectRef,
    api_version: &str,
    map: &mut Map<String, Value>,
) -> Result<BTreeMap<String, String>, String> {
    check_names(key)?;
    check_version(key, api_version)?;
    if key.is("", "Secret") {
        merge_string_data(map)?;
    }
    let Some(Value::Object(metadata)) = map.get_mut("metadata") else {
        return Err("has no metadata; give it metadata.name".to_owned());
    };
    if key.is("", "Namespace") {
        label_namespace(&key.name, metadata)?;
    }
    texts(metadata, "annotations")?;
    texts(metadata, "labels")
}

fn check_names(key: &ObjectRef) -> Result<(), String> {
    let name_fault = if key.is("", "Namespace") || key.is("", "Service") {
        names::label_fault(&key.name)
    } else if kinds::find(&key.group, &key.kind).is_some() {
        names::subdomain_fault(&key.name)
    } else {
        names::path_segment_fault(&key.name)
    };
    if let Some(fault) = name_fault {
        return Err(format!("metadata.name '{}' {fault}", printable(&key.name)));
    }
    if !key.namespace.is_empty()
        && let Some(fault) = names::label_fault(&key.namespace)
    {
        return Err(format!(
            "metadata.namespace '{}' {fault}",
            printable(&key.namespace)
        ));
    }
    Ok(())
}

/// A known kind must have a known version: in another one the same words may mean something else.
fn check_version(key: &ObjectRef, api_version: &str) -> Result<(), String> {
    let Some(known) = kinds::find(&key.group, &key.kind) else {
        return Ok(());
    };
    let version = api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version);
    if known.versions.contains(&version) {
        return Ok(());
    }
    let advice: Vec<String> = known
        .versions
        .iter()
        .map(|version| {
            if known.group.is_empty() {
                (*version).to_owned()
            } else {
                format!("{}/{version}", known.group)
            }
        })
        .collect();
    Err(format!(
        "apiVersion '{}' of kind {} is not supported; write {}",
        printable(api_version),
        key.kind,
        advice.join(" or ")
    ))
}

/// A map of strings in metadata.
fn texts(metadata: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, String>, String> {
    let entries = match metadata.get(field) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => {
            return Err(format!(
                "metadata.{field} is not a mapping; write key: value"
            ));
        }
    };
    entries
        .iter()
        .map(|(key, value)| match value {
            Value::String(value) => Ok((key.clone(), value.clone())),
            _ => Err(format!(
                "metadata.{field}.{} is not a string; write it in quotes",
                printable(key)
            )),
        })
        .collect()
}

fn label_namespace(name: &str, metadata: &mut Map<String, Value>) -> Result<(), String> {
    let labels = metadata
        .entry("labels")
        .or_insert_with(|| Value::Object(Map::new()));
    if labels.is_null() {
        *labels = Value::Object(Map::new());
    }
    let Value::Object(labels) = labels else {
        return Err("metadata.labels is not a mapping; write key: value".to_owned());
    };
    labels.insert(NAMESPACE_LABEL.to_owned(), name.into());
    Ok(())
}

/// `stringData` goes into `data`, in base64, and wins over it, as in the API server.
fn merge_string_data(map: &mut Map<String, Value>) -> Result<(), String> {
    let entries = match map.remove("stringData") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err("stringData is not a mapping; write key: value".to_owned()),
    };
    let data = map
        .entry("data")
        .or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    let Value::Object(data) = data else {
        return Err("data is not a mapping; write key: value".to_owned());
    };
    for (key, value) in entries {
        let Value::String(value) = value else {
            return Err(format!(
                "stringData.{} is not a string; write it in quotes",
                printable(&key)
            ));
        };
        data.insert(key, STANDARD.encode(value).into());
    }
    Ok(())
}

fn too_large(key: &ObjectRef, bytes: usize) -> Option<String> {
    let most = if key.is("", "ConfigMap") {
        MAX_CONFIG_MAP_BYTES
    } else {
        MAX_OBJECT_BYTES
    };
    (bytes > most).then(|| {
        format!(
            "is {bytes} bytes long as JSON, and {most} is the most that a cluster could store; \
             split it"
        )
    })
}

/// JSON with sorted keys and without spaces.
fn canonical(mut value: Value) -> Vec<u8> {
    value.sort_all_objects();
    value.to_string().into_bytes()
}
