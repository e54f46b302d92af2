//! What is held, as it outlives the host.
//!
//! Plain values, for any serde format. A Secret's content is never among them: of a held Secret only
//! the digest of what was refused is kept.

use super::Accepted;
use super::form::{Form, is_plain, is_secret};
use super::held::Held;
use crate::pipeline::{Documents, Reconciled};
use crate::store::{Key, Object};
use crate::synchronizer::apis::is_api;
use chiton_ir::documents;
use chiton_ir::route::Route;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects that are held, with the forms that proxies accepted last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedForms {
    /// Sorted by identity.
    objects: Vec<SavedObject>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedObject {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    /// [`version`] of the form that was refused.
    refused: String,
    text: String,
    /// None: not known.
    accepted: Option<SavedForm>,
}

impl SavedObject {
    fn identity(&self) -> [&str; 4] {
        [&self.group, &self.kind, &self.namespace, &self.name]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedForm {
    input: Option<SavedInput>,
    module: String,
    /// JSON by name.
    documents: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedInput {
    api_version: String,
    labels: BTreeMap<String, String>,
    generation: i64,
    created: Option<String>,
    body: Vec<u8>,
    problem: Option<String>,
}

/// What is known of an object from an earlier host: its last accepted form, and the words with which
/// its current one was refused, if it is still that one.
pub type Known = (Accepted, Option<String>);

impl AcceptedForms {
    /// The objects that are held.
    #[must_use]
    pub(super) fn of(held: &BTreeMap<Key, Held>) -> Self {
        let objects = held.iter().map(|(key, held)| SavedObject {
            group: key.group.to_string(),
            kind: key.kind.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            refused: held.refused.clone(),
            text: held.text.clone(),
            accepted: match &held.accepted {
                Accepted::Known(form) if !is_secret(key) => Some(save(form)),
                _ => None,
            },
        });
        // Keys are in the order of identities.
        Self {
            objects: objects.collect(),
        }
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What is known of an object whose form is `now`.
    pub(super) fn find(&self, key: &Key, now: &Form) -> Option<Known> {
        let wanted: [&str; 4] = [&key.group, &key.kind, &key.namespace, &key.name];
        let found = self
            .objects
            .binary_search_by(|it| it.identity().cmp(&wanted));
        let saved = self.objects.get(found.ok()?)?;
        let accepted = match &saved.accepted {
            Some(form) => Accepted::Known(load(key, form)),
            None => Accepted::Unknown,
        };
        Some((
            accepted,
            (saved.refused == version(now)).then(|| saved.text.clone()),
        ))
    }
}

/// A digest of what assembly sees of a form.
#[must_use]
pub fn version(form: &Form) -> String {
    let mut bytes = Vec::new();
    for (name, body) in form.documents().map(encode).unwrap_or_default() {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&body);
        bytes.push(0);
    }
    if let Some(object) = form
        .input
        .as_ref()
        .filter(|it| is_plain(&it.key) || is_api(&it.key))
    {
        bytes.extend_from_slice(&object.body);
    }
    chiton_xds::version_of(&bytes)
}

fn save(form: &Form) -> SavedForm {
    SavedForm {
        input: form.input.as_ref().map(|object| SavedInput {
            api_version: object.api_version.to_string(),
            labels: object
                .labels
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            generation: object.generation,
            created: object.created.as_ref().map(ToString::to_string),
            body: object.body.to_vec(),
            problem: object.problem.clone(),
        }),
        module: form
            .result
            .as_ref()
            .map(|it| it.module.clone())
            .unwrap_or_default(),
        documents: form.documents().map(encode).unwrap_or_default(),
    }
}

fn load(key: &Key, saved: &SavedForm) -> Form {
    let input = saved.input.as_ref().map(|it| {
        Arc::new(Object {
            key: key.clone(),
            api_version: it.api_version.as_str().into(),
            labels: it.labels.clone().into_iter().collect(),
            generation: it.generation,
            created: it.created.clone(),
            body: it.body.clone().into(),
            problem: it.problem.clone(),
            origin: None,
        })
    });
    let result = Reconciled {
        module: saved.module.clone(),
        documents: decode(&saved.documents),
        ..Reconciled::default()
    };
    Form {
        input,
        result: Some(Arc::new(result)),
    }
}

fn encode(found: &Documents) -> Vec<(String, Vec<u8>)> {
    let mut saved = Vec::new();
    let mut add = |name: &str, body: serde_json::Result<Vec<u8>>| {
        // Documents are plain: they can always be written.
        saved.extend(body.ok().map(|body| (name.to_owned(), body)));
    };
    if let Some(document) = &found.gateway {
        add(documents::GATEWAY, serde_json::to_vec(document.as_ref()));
    }
    if let Some(document) = &found.policy {
        add(documents::POLICY, serde_json::to_vec(document.as_ref()));
    }
    if let Some(document) = found.json(documents::ROUTE) {
        add(documents::ROUTE, Ok(document.to_vec()));
    }
    if let Some(document) = &found.api {
        add(documents::API, serde_json::to_vec(document.as_ref()));
    }
    saved
}

/// A document that cannot be read is none: then the object is left out.
fn decode(saved: &[(String, Vec<u8>)]) -> Documents {
    let mut found = Documents::default();
    for (name, body) in saved {
        match name.as_str() {
            documents::GATEWAY => found.gateway = read(body),
            documents::POLICY => found.policy = read(body),
            documents::ROUTE => found
                .json
                .extend(read::<Route>(body).map(|_| (name.clone(), Arc::from(body.as_slice())))),
            documents::API => found.api = read(body),
            _ => {}
        }
    }
    found
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Option<Arc<T>> {
    serde_json::from_slice(body).ok().map(Arc::new)
}
