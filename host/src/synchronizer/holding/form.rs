//! What assembly sees of an object, and what it is shown instead of an object that is held.

use crate::pipeline::{Documents, Reconciled, World};
use crate::store::{Key, Object};
use crate::synchronizer::apis::is_api;
use crate::synchronizer::decode;
use chiton_ir::identity::names::CHITON_GROUP;
use chiton_ir::policy::{Effect, Target};
use chiton_ir::route::Filter;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an object comes to: the object itself and what its reconciler returned.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// The object; of importance where the host reads it itself.
    pub input: Option<Arc<Object>>,
    /// The result.
    pub result: Option<Arc<Reconciled>>,
}

/// Whether an object is a Secret, of which nothing is kept beyond the process.
#[must_use]
pub fn is_secret(key: &Key) -> bool {
    key.is("", "Secret")
}

/// Whether the host reads an object itself and no reconciler does.
#[must_use]
pub fn is_plain(key: &Key) -> bool {
    key.is("", "Service") || is_secret(key) || key.is(CHITON_GROUP, "Backend")
}

impl Form {
    /// The form of an object in a world.
    #[must_use]
    pub fn of(key: &Key, world: &World) -> Self {
        Self {
            input: world.inputs.get(key).cloned(),
            result: world.outputs.get(key).cloned(),
        }
    }

    /// The documents, where there are any.
    #[must_use]
    pub fn documents(&self) -> Option<&Documents> {
        let documents = self.result.as_ref().map(|result| &result.documents);
        documents.filter(|it| {
            it.gateway.is_some() || it.policy.is_some() || it.is_route() || it.api.is_some()
        })
    }

    /// Whether it can put anything into a resource.
    #[must_use]
    pub fn counts(&self, key: &Key) -> bool {
        self.documents().is_some() || (is_plain(key) && self.input.is_some())
    }

    /// Whether assembly could not tell the two apart.
    #[must_use]
    pub fn same(&self, key: &Key, other: &Self) -> bool {
        self.documents() == other.documents() && self.same_input(key, other)
    }

    /// Whether the objects themselves are the same.
    #[must_use]
    pub fn same_input(&self, key: &Key, other: &Self) -> bool {
        match (&self.input, &other.input) {
            (Some(a), Some(b)) if is_plain(key) || is_api(key) => {
                Arc::ptr_eq(a, b) || (a.body == b.body && a.problem == b.problem)
            }
            (Some(a), Some(b)) => a.created == b.created,
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// Whether a policy of this form lets fewer requests through than its absence would.
    #[must_use]
    pub fn closes(&self) -> bool {
        let policy = self.documents().and_then(|it| it.policy.as_ref());
        policy.is_some_and(|policy| {
            let mut effects = policy.r#override.iter().chain(&policy.default);
            effects.any(|effect| matches!(effect, Effect::ApiKey(_) | Effect::Respond(_)))
        })
    }

    /// The targets of a policy.
    #[must_use]
    pub fn targets(&self) -> BTreeSet<Target> {
        let policy = self.documents().and_then(|it| it.policy.as_ref());
        policy.map_or_else(BTreeSet::new, |it| it.targets.iter().cloned().collect())
    }

    /// The objects that it refers to.
    #[must_use]
    pub fn refers_to(&self) -> BTreeSet<Key> {
        let mut to = BTreeSet::new();
        let Some(documents) = self.documents() else {
            return to;
        };
        if let Some(gateway) = &documents.gateway {
            let tls = gateway.listeners.iter().filter_map(|it| it.tls.as_ref());
            to.extend(tls.flat_map(|tls| &tls.certificates).map(Key::from));
        }
        if let Some(policy) = &documents.policy {
            to.extend(policy.targets.iter().map(|it| Key::from(&it.object)));
            for effect in policy.r#override.iter().chain(&policy.default) {
                if let Effect::ApiKey(settings) = effect {
                    to.extend(settings.secrets.iter().map(Key::from));
                }
            }
        }
        if let Some(route) = documents.route() {
            to.extend(route.parents.iter().map(|it| Key::from(&it.parent.object)));
            for rule in &route.rules {
                let backends = rule.backends.iter().map(|it| &it.target);
                let mirrors = rule.filters.iter().filter_map(|filter| match filter {
                    Filter::Mirror(mirror) => Some(&mirror.backend),
                    _ => None,
                });
                to.extend(backends.chain(mirrors).map(|it| Key::from(&it.object)));
            }
        }
        if let Some(api) = &documents.api {
            let routes = [&api.production, &api.sandbox].into_iter().flatten();
            to.extend(routes.map(Key::from));
        }
        to
    }

    /// Whether anything is served of it.
    #[must_use]
    pub fn is_served(&self, key: &Key) -> bool {
        let usable =
            |object: &Arc<Object>| decode::lenient::<serde::de::IgnoredAny>(object).is_ok();
        self.documents().is_some() || (is_plain(key) && self.input.as_ref().is_some_and(usable))
    }

    /// Puts it into a world in the place of what is there. Where it is nothing, an object that the
    /// host reads itself is there and cannot be used, because of `why`.
    pub fn put(&self, key: &Key, why: &str, world: &mut World) {
        if let Some(now) = world.outputs.get(key).cloned() {
            let documents = self.documents().cloned().unwrap_or_default();
            let result = Reconciled {
                documents,
                ..Reconciled::clone(&now)
            };
            world.outputs.set(key.clone(), Some(Arc::new(result)));
        }
        if !is_plain(key) && !is_api(key) {
            return;
        }
        let object = match (&self.input, world.inputs.get(key)) {
            (Some(object), _) => object.clone(),
            // Which routes an API names is read from itself, so that they do not stand bare.
            (None, Some(now)) if !is_api(key) => Arc::new(Object {
                problem: Some(why.to_owned()),
                ..Object::clone(now)
            }),
            _ => return,
        };
        world.inputs = Arc::new(world.inputs.with(object));
    }
}
