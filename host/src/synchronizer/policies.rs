//! Policies: which effects are attached where, with their Secrets followed.

use super::conditions::{self, RESOLVED_REFS};
use super::followed::{self, Followed};
use super::grants::Grants;
use super::ids::Age;
use super::model::{Credential, PlacedEffect};
use super::references::Refusal;
use super::secrets;
use crate::store::{Key, Snapshot};
use chiton_ir::policy::{ApiKey, Effect, Policy, Respond, Target};
use chiton_ir::{Condition, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reason where a Secret is missing or cannot be used.
const INVALID_SECRET: &str = "InvalidSecretRef";

/// What replaces an effect that proxies would refuse: leaving it out could let somebody in.
const BROKEN: Respond = Respond {
    status: 500,
    body: String::new(),
};

/// How an effect asserts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Nothing more specific may replace it.
    Override,
    /// Something more specific may replace it.
    Default,
}

/// An effect of a policy at a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The policy.
    pub policy: Key,
    /// How it asserts itself.
    pub strength: Strength,
    /// The effect.
    pub placed: PlacedEffect,
}

impl Attached {
    /// The effect's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.placed.effect.name()
    }
}

/// Keys that an effect lets in.
type Keys = Arc<Vec<Credential>>;

/// A policy, prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its age.
    pub age: Age,
    /// Its targets.
    pub targets: BTreeSet<Target>,
    /// Its effects, of which the first of a name and strength counts.
    effects: Vec<(Strength, Arc<Effect>, Option<Keys>)>,
    /// What is wrong with it.
    pub conditions: Vec<Condition>,
}

/// Effects at the sections of one object; the object itself is the section `None`.
type Sections = BTreeMap<Option<String>, BTreeMap<Age, Vec<Attached>>>;

/// All policies.
#[derive(Debug, Default)]
pub struct Policies {
    prepared: BTreeMap<Key, Prepared>,
    attached: BTreeMap<Key, Sections>,
    targeting: BTreeMap<Key, BTreeSet<Key>>,
}

/// What preparing a policy needs.
pub struct Preparer<'a> {
    /// Inputs.
    pub inputs: &'a Snapshot,
    /// Grants.
    pub grants: &'a Grants,
}

impl Preparer<'_> {
    /// Follows the references of a policy. What was looked at is returned too.
    #[must_use]
    pub fn prepare(&self, key: &Key, policy: &Policy) -> (Prepared, BTreeSet<Followed>) {
        let mut followed = BTreeSet::new();
        let mut prepared = Prepared {
            age: Age::of(key, self.inputs.get(key)),
            targets: policy.targets.iter().cloned().collect(),
            effects: Vec::new(),
            conditions: Vec::new(),
        };
        let overrides = policy.r#override.iter().map(|it| (Strength::Override, it));
        let defaults = policy.default.iter().map(|it| (Strength::Default, it));
        let mut refusals = Vec::new();
        for (strength, effect) in overrides.chain(defaults) {
            if let Err(fault) = super::checks::effect(effect) {
                let message = format!(
                    "{}: {fault}; requests are answered with {} instead",
                    effect.name(),
                    BROKEN.status
                );
                let reason = conditions::INVALID;
                let condition = Condition::fails(conditions::ACCEPTED, reason, message);
                prepared.conditions.push(condition);
                let broken = Arc::new(Effect::Respond(BROKEN));
                prepared.effects.push((strength, broken, None));
                continue;
            }
            let keys = match effect {
                Effect::ApiKey(settings) => self.keys(key, settings, &mut followed, &mut refusals),
                _ => None,
            };
            prepared
                .effects
                .push((strength, Arc::new(effect.clone()), keys));
        }
        if let Some(first) = refusals.first() {
            let message = conditions::join(refusals.iter().map(|refusal| &refusal.message));
            let condition = Condition::fails(RESOLVED_REFS, first.reason, message);
            prepared.conditions.push(condition);
        }
        prepared.conditions.dedup_by(|b, a| a.r#type == b.r#type);
        (prepared, followed)
    }

    /// The keys in the Secrets; none if one of them could not be followed.
    fn keys(
        &self,
        policy: &Key,
        settings: &ApiKey,
        followed: &mut BTreeSet<Followed>,
        refusals: &mut Vec<Refusal>,
    ) -> Option<Keys> {
        let mut by_key = BTreeMap::new();
        let mut complete = true;
        for secret in &settings.secrets {
            match self.read(policy, secret, followed) {
                Ok(entries) => {
                    for (client, value) in entries {
                        let name = format!("entry {client} of {secret}");
                        if let Err(refusal) = add(&mut by_key, client, value, &name) {
                            refusals.push(refusal);
                        }
                    }
                }
                Err(refusal) => {
                    complete = false;
                    refusals.push(Refusal {
                        message: format!("{}; nobody is let in", refusal.message),
                        ..refusal
                    });
                }
            }
        }
        let mut keys: Vec<_> = by_key
            .into_iter()
            .map(|(key, client)| Credential { client, key })
            .collect();
        keys.sort();
        complete.then(|| Arc::new(keys))
    }

    fn read(
        &self,
        policy: &Key,
        secret: &ObjectRef,
        followed: &mut BTreeSet<Followed>,
    ) -> Result<secrets::Entries, Refusal> {
        if !secret.is("", "Secret") {
            let message = format!("{secret} is not a Secret");
            return Err(Refusal::new(INVALID_SECRET, message));
        }
        if !self.grants.permits(policy, secret, followed) {
            return Err(Refusal::not_permitted(policy, secret));
        }
        followed.insert(Followed::Object(Key::from(secret)));
        let Some(object) = self.inputs.get(secret) else {
            let message = format!("{secret} does not exist");
            return Err(Refusal::new(INVALID_SECRET, message));
        };
        secrets::entries(object)
            .map_err(|why| Refusal::new(INVALID_SECRET, format!("{secret}: {why}")))
    }
}

/// Adds a key. A line break at the end, which editors and `kubectl create secret --from-file`
/// leave, is not part of it. Envoy refuses a key that two clients have.
fn add(
    keys: &mut BTreeMap<String, String>,
    client: String,
    value: Vec<u8>,
    name: &str,
) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::new(INVALID_SECRET, format!("{name} {why}")));
    let Ok(text) = String::from_utf8(value) else {
        return refuse("is not text and was left out");
    };
    let key = text.trim_end_matches(['\r', '\n']);
    if key.is_empty() || key.chars().any(char::is_control) {
        return refuse("is empty or holds control characters and was left out");
    }
    if let Some(other) = keys.get(key) {
        return refuse(&format!(
            "is the same key as that of client {other} and was left out"
        ));
    }
    keys.insert(key.to_owned(), client);
    Ok(())
}

impl Policies {
    /// Replaces or removes a policy and returns the targets whose effects may have changed.
    pub fn set(&mut self, key: &Key, new: Option<Prepared>) -> BTreeSet<Target> {
        if self.prepared.get(key) == new.as_ref() {
            return BTreeSet::new();
        }
        let mut touched = BTreeSet::new();
        if let Some(old) = self.prepared.remove(key) {
            for target in &old.targets {
                self.detach(key, &old.age, target);
            }
            touched.extend(old.targets);
        }
        if let Some(new) = new {
            for target in &new.targets {
                self.attach(key, &new, target);
            }
            touched.extend(new.targets.iter().cloned());
            self.prepared.insert(key.clone(), new);
        }
        touched
    }

    fn attach(&mut self, key: &Key, policy: &Prepared, target: &Target) {
        let object = Key::from(&target.object);
        self.targeting
            .entry(object.clone())
            .or_default()
            .insert(key.clone());
        if target.object.namespace != key.namespace {
            return; // Targets are local to their namespace; findings say so.
        }
        let bucket = bucket(target);
        let effects = policy
            .effects
            .iter()
            .map(|(strength, effect, keys)| Attached {
                policy: key.clone(),
                strength: *strength,
                placed: PlacedEffect {
                    effect: effect.clone(),
                    bucket: bucket.clone(),
                    keys: keys.clone(),
                },
            })
            .collect();
        self.attached
            .entry(object)
            .or_default()
            .entry(target.section.clone())
            .or_default()
            .insert(policy.age.clone(), effects);
    }

    fn detach(&mut self, key: &Key, age: &Age, target: &Target) {
        let object = Key::from(&target.object);
        followed::remove(&mut self.targeting, &object, key);
        let Some(sections) = self.attached.get_mut(&object) else {
            return;
        };
        if let Some(policies) = sections.get_mut(&target.section) {
            policies.remove(age);
            if policies.is_empty() {
                sections.remove(&target.section);
            }
        }
        if sections.is_empty() {
            self.attached.remove(&object);
        }
    }

    /// The effects at a target, oldest policy first.
    pub fn at<'a>(
        &'a self,
        object: &Key,
        section: Option<&str>,
    ) -> impl Iterator<Item = &'a Attached> + use<'a> {
        self.attached
            .get(object)
            .and_then(|sections| sections.get(&section.map(str::to_owned)))
            .into_iter()
            .flat_map(|policies| policies.values().flatten())
    }

    /// A policy, if it has a document.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Prepared> {
        self.prepared.get(key)
    }

    /// The policies that name an object as a target.
    pub fn targeting(&self, object: &Key) -> impl Iterator<Item = &Key> {
        self.targeting.get(object).into_iter().flatten()
    }
}

/// Name under which things are kept per target.
fn bucket(target: &Target) -> String {
    let object = &target.object;
    let mut name = format!("{}_{}_{}", object.kind, object.namespace, object.name);
    if let Some(section) = &target.section {
        name.push('_');
        name.push_str(section);
    }
    name
}
