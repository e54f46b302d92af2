//! `ReferenceGrant`s: which references may leave their namespace.

use super::decode;
use super::followed::{Followed, GrantId};
use crate::store::{Key, Object, Text};
use chiton_ir::{GroupKind, ObjectRef};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default, Deserialize, Serialize)]
struct ReferenceGrant {
    #[serde(default)]
    spec: GrantSpec,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct GrantSpec {
    #[serde(default)]
    from: Vec<From>,
    #[serde(default)]
    to: Vec<To>,
}

#[derive(Debug, Deserialize, Serialize)]
struct From {
    #[serde(default)]
    group: String,
    kind: String,
    namespace: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct To {
    #[serde(default)]
    group: String,
    kind: String,
    #[serde(default)]
    name: Option<String>,
}

/// All grants.
#[derive(Debug, Default)]
pub struct Grants {
    grants: BTreeMap<Key, GrantSpec>,
    by_namespace: BTreeMap<Text, BTreeSet<Key>>,
}

impl Grants {
    /// Reads a grant again and returns what it allows or allowed. One that cannot be read allows
    /// nothing.
    pub fn update(&mut self, key: &Key, object: Option<&Object>) -> BTreeSet<GrantId> {
        let spec = object
            .and_then(|object| decode::strict::<ReferenceGrant>(object).ok())
            .map(|grant| grant.spec);
        let mut touched = BTreeSet::new();
        if let Some(before) = self.grants.remove(key) {
            super::followed::remove(&mut self.by_namespace, &key.namespace, key);
            touched.extend(ids(key, &before));
        }
        if let Some(spec) = spec {
            touched.extend(ids(key, &spec));
            self.by_namespace
                .entry(key.namespace.clone())
                .or_default()
                .insert(key.clone());
            self.grants.insert(key.clone(), spec);
        }
        touched
    }

    /// Whether an object may refer to another one. What was looked at is noted.
    pub fn permits(&self, from: &Key, to: &ObjectRef, followed: &mut BTreeSet<Followed>) -> bool {
        if from.namespace == to.namespace {
            return true;
        }
        let id = GrantId {
            from: from.group_kind(),
            from_namespace: from.namespace.clone(),
            to_namespace: to.namespace.as_str().into(),
        };
        let permitted = self
            .by_namespace
            .get(to.namespace.as_str())
            .into_iter()
            .flatten()
            .filter_map(|grant| self.grants.get(grant))
            .any(|grant| grant.allows(&id, to));
        followed.insert(Followed::Grant(Arc::new(id)));
        permitted
    }
}

impl GrantSpec {
    fn allows(&self, id: &GrantId, to: &ObjectRef) -> bool {
        self.from.iter().any(|from| {
            from.group == id.from.group
                && from.kind == id.from.kind
                && from.namespace == id.from_namespace
        }) && self.to.iter().any(|target| {
            target.group == to.group
                && target.kind == to.kind
                && target.name.as_ref().is_none_or(|name| *name == to.name)
        })
    }
}

fn ids<'a>(key: &'a Key, spec: &'a GrantSpec) -> impl Iterator<Item = GrantId> + 'a {
    spec.from.iter().map(|from| GrantId {
        from: GroupKind::new(from.group.clone(), from.kind.clone()),
        from_namespace: from.namespace.as_str().into(),
        to_namespace: key.namespace.clone(),
    })
}

/// What is wrong with a grant, if anything.
#[must_use]
pub fn problem(object: &Object) -> Option<String> {
    decode::strict::<ReferenceGrant>(object).err()
}
