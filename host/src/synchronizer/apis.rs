//! APIs: which routes are served through them, and under which prefixes.
//!
//! A route that any API names, even an invalid one, is served only through APIs. So what an API
//! names is read from the API itself too, not only from its document: an API that becomes invalid
//! must not put its routes onto the bare hostname.

use super::decode;
use super::followed;
use super::ids::Age;
use super::rules::Mount;
use crate::pipeline::World;
use crate::store::{Key, Object};
use chiton_ir::ObjectRef;
use chiton_ir::api::Api;
use chiton_ir::identity::names::{CHITON_GROUP, GATEWAY_GROUP};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Its age: the older one gets a prefix that two want.
    pub age: Age,
    document: Option<Arc<Api>>,
    /// Routes that it names.
    pub routes: BTreeSet<Key>,
}

/// All APIs.
#[derive(Debug, Default)]
pub struct Apis {
    apis: BTreeMap<Key, Composition>,
    naming: BTreeMap<Key, BTreeSet<Key>>,
}

/// Whether an object is an API.
#[must_use]
pub fn is_api(key: &Key) -> bool {
    key.is(CHITON_GROUP, "API")
}

impl Apis {
    /// Reads an API again and returns the routes that it names or named.
    pub fn update(&mut self, key: &Key, world: &World) -> BTreeSet<Key> {
        let new = read(key, world);
        if self.apis.get(key) == new.as_ref() {
            return BTreeSet::new();
        }
        let mut touched = BTreeSet::new();
        if let Some(old) = self.apis.remove(key) {
            for route in &old.routes {
                followed::remove(&mut self.naming, route, key);
            }
            touched.extend(old.routes);
        }
        if let Some(new) = new {
            for route in &new.routes {
                self.naming
                    .entry(route.clone())
                    .or_default()
                    .insert(key.clone());
            }
            touched.extend(new.routes.iter().cloned());
            self.apis.insert(key.clone(), new);
        }
        touched
    }

    /// An API, if it is there.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Composition> {
        self.apis.get(key)
    }

    /// The APIs that name a route.
    pub fn naming(&self, route: &Key) -> impl Iterator<Item = &Key> {
        self.naming.get(route).into_iter().flatten()
    }

    /// Where a route is served: as it is, or under the prefixes of its APIs only.
    #[must_use]
    pub fn mounts(&self, route: &Key) -> Vec<Mount> {
        let Some(apis) = self.naming.get(route) else {
            return vec![Mount::default()];
        };
        let mut mounts = Vec::new();
        for key in apis {
            let Some(api) = self.apis.get(key).and_then(|api| api.document.as_ref()) else {
                continue;
            };
            let is = |named: &Option<ObjectRef>| named.as_ref().is_some_and(|it| *it == *route);
            for (sandbox, named) in [(false, is(&api.production)), (true, is(&api.sandbox))] {
                if named {
                    mounts.extend(api.prefixes.iter().map(|prefix| Mount {
                        api: Some(key.clone()),
                        prefix: prefix.trim_end_matches('/').to_owned(),
                        sandbox,
                        header: api.sandbox_header.clone(),
                    }));
                }
            }
        }
        mounts
    }
}

fn read(key: &Key, world: &World) -> Option<Composition> {
    let object = world.inputs.get(key);
    let document = world
        .outputs
        .get(key)
        .and_then(|result| result.documents.api.clone());
    if document.is_none() && (object.is_none() || !is_api(key)) {
        return None;
    }
    let mut routes = object.map(|object| named_in(object)).unwrap_or_default();
    if let Some(api) = &document {
        routes.extend(
            [&api.production, &api.sandbox]
                .into_iter()
                .flatten()
                .map(Key::from),
        );
    }
    Some(Composition {
        age: Age::of(key, object),
        document,
        routes,
    })
}

/// Routes that the object names, as far as it can be read.
fn named_in(object: &Object) -> BTreeSet<Key> {
    let body: serde_json::Value = decode::lenient(object).unwrap_or_default();
    ["production", "sandbox"]
        .into_iter()
        .filter_map(|role| body.pointer(&format!("/spec/{role}/name"))?.as_str())
        .map(|name| Key::new(GATEWAY_GROUP, "HTTPRoute", &object.key.namespace, name))
        .collect()
}
