//! The parents that a route names, and which of them are ours.

use chiton_guest::ir::gateway::Gateway;
use chiton_guest::ir::identity::names;
use chiton_guest::{Condition, Context, Error, ObjectRef, ParentRef, Raw, Scope};
use gateway_api::apis::standard::httproutes::HttpRouteParentRefs;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// A parent that this project says something about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The parent as the route names it, with defaults filled in.
    pub reference: ParentRef,
    /// What its Gateway offers; none if no such Gateway exists.
    pub gateway: Option<Gateway>,
}

/// The parents of a route.
#[derive(Debug, Default)]
pub struct Parents {
    /// Parents that are ours, or that do not exist, in the order of the spec.
    pub ours: Vec<Parent>,
    /// What is wrong with the references as a whole: `Accepted=False` says it at each parent.
    pub mistake: Option<String>,
    /// Whether the route names no parent that could be read.
    unreadable: bool,
}

#[derive(Deserialize)]
struct Outline {
    spec: OutlineSpec,
}

#[derive(Deserialize)]
struct OutlineSpec {
    #[serde(default, rename = "parentRefs")]
    parent_refs: Option<Vec<Value>>,
}

impl Parents {
    /// Reads the parents, also of a route that is not well-formed otherwise.
    pub fn read(object: &Raw, cx: &mut Context) -> Result<Self, Error> {
        let references = object
            .lenient::<Outline>()
            .and_then(|outline| outline.spec.parent_refs);
        let mut parents = Self {
            unreadable: references.is_none(),
            ..Self::default()
        };
        let mut known: BTreeMap<ObjectRef, Offer> = BTreeMap::new();
        let mut seen: Vec<ParentRef> = Vec::new();
        for value in references.unwrap_or_default() {
            let Ok(reference) = serde_json::from_value::<HttpRouteParentRefs>(value) else {
                parents.unreadable = true;
                continue;
            };
            let Some(reference) = complete(reference, &object.reference.namespace) else {
                continue;
            };
            if let Some(mistake) = indistinct(&reference, &seen) {
                parents.mistake.get_or_insert(mistake);
            }
            if seen.contains(&reference) {
                continue;
            }
            seen.push(reference.clone());
            let offer = match known.get(&reference.object) {
                Some(offer) => offer.clone(),
                None => Offer::read(&reference.object, cx)?,
            };
            known.insert(reference.object.clone(), offer.clone());
            match offer {
                Offer::Foreign => {}
                Offer::Missing => parents.add(reference, None),
                Offer::Ours(gateway) => parents.add(reference, Some(gateway)),
            }
        }
        Ok(parents)
    }

    fn add(&mut self, reference: ParentRef, gateway: Option<Gateway>) {
        self.ours.push(Parent { reference, gateway });
    }

    /// A condition about the route as a whole: at each of our parents, or, where the parents cannot
    /// be read, on the object.
    pub fn refuse(&self, condition: &Condition) -> Vec<Condition> {
        if self.ours.is_empty() && self.unreadable {
            return vec![condition.clone()];
        }
        self.ours
            .iter()
            .map(|parent| {
                condition
                    .clone()
                    .at(Scope::Parent(parent.reference.clone()))
            })
            .collect()
    }
}

/// What is known of a Gateway.
#[derive(Clone)]
enum Offer {
    /// Of a class that this control plane serves.
    Ours(Gateway),
    /// It does not exist.
    Missing,
    /// Somebody else's, who will say what is to be said.
    Foreign,
}

impl Offer {
    fn read(gateway: &ObjectRef, cx: &mut Context) -> Result<Self, Error> {
        if let Some(document) = cx.output::<Gateway>(gateway)? {
            return Ok(Self::Ours(document));
        }
        match cx.get::<IgnoredAny>(gateway) {
            Ok(None) => Ok(Self::Missing),
            _ => Ok(Self::Foreign),
        }
    }
}

/// The reference with its defaults; none if it is not to a Gateway, or its port cannot be one.
fn complete(reference: HttpRouteParentRefs, namespace: &str) -> Option<ParentRef> {
    let group = reference.group.as_deref().unwrap_or(names::GATEWAY_GROUP);
    let kind = reference.kind.as_deref().unwrap_or("Gateway");
    if group != names::GATEWAY_GROUP || kind != "Gateway" {
        return None;
    }
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    Some(ParentRef {
        object: ObjectRef::new(group, kind, namespace, reference.name),
        section: reference.section_name.filter(|name| !name.is_empty()),
        // Port 0 is the port of no listener.
        port: reference.port.map(|port| u16::try_from(port).unwrap_or(0)),
    })
}

/// Parents must be distinct: references to one object set the same fields, to different values.
fn indistinct(reference: &ParentRef, seen: &[ParentRef]) -> Option<String> {
    let other = seen.iter().find(|other| {
        other.object == reference.object
            && (*other == reference
                || other.section.is_some() != reference.section.is_some()
                || other.port.is_some() != reference.port.is_some())
    })?;
    Some(format!(
        "spec.parentRefs: {reference} and {other} are not distinct: give each its own sectionName or port, \
         or keep one"
    ))
}
