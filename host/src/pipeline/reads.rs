//! Reads of a running reconciler, recorded.
//!
//! A run sees one [`View`]: the inputs of the epoch and the outputs of the layers below. All that it
//! reads of it, what it did not find included, is in its [`ReadSet`], so that the host knows which
//! changes can change its outcome.

use super::layer::Layer;
use super::output::Outputs;
use crate::sandbox::{Failure, Reads};
use crate::store::{Key, Object, Snapshot, Text};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::identity::names::CHITON_GROUP;
use chiton_ir::policy::{Policy, Target};
use chiton_ir::{GroupKind, ObjectRef, documents};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// One thing that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Read {
    /// An object, whether it was there or not.
    Object(Key),
    /// A list of objects.
    List {
        kind: GroupKind,
        namespace: Option<Text>,
        selector: LabelSelector,
    },
    /// Documents of an object, whether they were there or not.
    Output(Key),
    /// Policies attached to an object, and to the section if one is named.
    Policies {
        target: Key,
        section: Option<String>,
    },
    /// A kind that was not synced.
    Unsynced(GroupKind),
}

/// All that one run read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadSet {
    /// Sorted, each once. Kept for long, one set for each object.
    pub reads: Box<[Read]>,
    /// The earliest time, in seconds since 1970, that the run asked for and that had not come.
    pub wake: Option<u64>,
}

/// What a run sees.
#[derive(Debug)]
pub(super) struct View {
    pub inputs: Arc<Snapshot>,
    pub outputs: Outputs,
    /// Time since 1970.
    pub now: Duration,
}

impl View {
    fn object(&self, key: &Key) -> Option<&Object> {
        self.inputs.get(key).map(|object| &**object)
    }

    fn list(
        &self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Vec<Arc<Object>> {
        self.inputs
            .list(kind, namespace, selector)
            .cloned()
            .collect()
    }

    /// `policy` documents for a target: those of the whole object before those of the section,
    /// each by age.
    fn policies(&self, target: &Key, section: Option<&str>) -> Vec<Arc<[u8]>> {
        let mut found: Vec<_> = self
            .outputs
            .policies(target)
            .filter(|(_, policy)| reaches(policy, target, section))
            .filter_map(|(key, policy)| {
                let whole = policy.targets.iter().any(|t| names_whole(t, target));
                let object = self.inputs.get(key)?;
                let json = self.outputs.get(key)?.documents.json(documents::POLICY)?;
                Some(((!whole, object.age()), json.clone()))
            })
            .collect();
        found.sort_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, json)| json).collect()
    }

    /// Whether a run that read `read` in `self` would read the same in `other`.
    fn same(&self, other: &Self, read: &Read) -> bool {
        match read {
            Read::Object(key) => same_object(self.object(key), other.object(key)),
            Read::List {
                kind,
                namespace,
                selector,
            } => {
                let namespace = namespace.as_ref().map(Text::as_str);
                let (a, b) = (
                    self.list(kind, namespace, selector),
                    other.list(kind, namespace, selector),
                );
                a.len() == b.len()
                    && a.iter()
                        .zip(&b)
                        .all(|(a, b)| a.key == b.key && a.same_content(b))
            }
            Read::Output(key) => json(&self.outputs, key) == json(&other.outputs, key),
            Read::Policies { target, section } => {
                self.policies(target, section.as_deref())
                    == other.policies(target, section.as_deref())
            }
            Read::Unsynced(kind) => self.inputs.is_synced(kind) == other.inputs.is_synced(kind),
        }
    }

    /// Whether a run of `object` with these reads in `self` would be the same in `other`.
    pub fn is_current(&self, other: &Self, object: &Object, reads: &ReadSet) -> bool {
        same_object(Some(object), other.object(&object.key))
            && reads.reads.iter().all(|read| self.same(other, read))
    }
}

fn same_object(a: Option<&Object>, b: Option<&Object>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same_content(b),
        (None, None) => true,
        _ => false,
    }
}

fn json<'a>(outputs: &'a Outputs, key: &Key) -> &'a [(String, Arc<[u8]>)] {
    outputs
        .get(key)
        .map(|result| result.documents.json.as_slice())
        .unwrap_or_default()
}

fn names_whole(target: &Target, object: &Key) -> bool {
    target.section.is_none() && target.object == *object
}

/// Whether a policy is attached to the object, or to the section of it that is asked for.
pub(super) fn reaches(policy: &Policy, object: &Key, section: Option<&str>) -> bool {
    policy.targets.iter().any(|target| {
        target.object == *object
            && target
                .section
                .as_deref()
                .is_none_or(|named| Some(named) == section)
    })
}

/// Hands out a view and records what was read of it.
#[derive(Debug)]
pub(super) struct Recorder {
    view: Arc<View>,
    layer: Layer,
    reads: BTreeSet<Read>,
    /// [`ReadSet::wake`].
    wake: Option<u64>,
}

impl Recorder {
    pub fn new(view: Arc<View>, layer: Layer) -> Self {
        Self {
            view,
            layer,
            reads: BTreeSet::new(),
            wake: None,
        }
    }

    /// What was read so far.
    pub fn take(&mut self) -> ReadSet {
        ReadSet {
            reads: std::mem::take(&mut self.reads).into_iter().collect(),
            wake: self.wake.take(),
        }
    }

    fn note(&mut self, read: Read) {
        self.reads.insert(read);
    }

    /// *Unsynced* is never *absent*: the run ends, and waits for the kind.
    fn need_synced(&mut self, group: &str, kind: &str) -> Result<(), Failure> {
        if self.view.inputs.is_kind_synced(group, kind) {
            return Ok(());
        }
        let kind = GroupKind::new(group, kind);
        self.note(Read::Unsynced(kind.clone()));
        Err(Failure::NotSynced(kind))
    }
}

impl Reads for Recorder {
    fn get(&mut self, object: &ObjectRef) -> Result<Option<Arc<Object>>, Failure> {
        self.need_synced(&object.group, &object.kind)?;
        let found = self.view.inputs.get(object).cloned();
        self.note(Read::Object(self.view.inputs.key(object)));
        Ok(found)
    }

    fn list(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        self.need_synced(&kind.group, &kind.kind)?;
        self.note(Read::List {
            kind: kind.clone(),
            namespace: namespace.map(Text::shared),
            selector: selector.clone(),
        });
        Ok(self.view.list(kind, namespace, selector))
    }

    fn output(&mut self, object: &ObjectRef, name: &str) -> Result<Option<Arc<[u8]>>, Failure> {
        let Some(layer) = Layer::of_document(name) else {
            return Err(Failure::Module(format!(
                "asked for the document {name:?} of {object}, which no reconciler returns"
            )));
        };
        if layer >= self.layer {
            return Err(Failure::Module(format!(
                "asked for the document {name:?} of {object}, which is not of a lower layer"
            )));
        }
        self.need_synced(&object.group, &object.kind)?;
        let key = self.view.inputs.key(object);
        let found = self
            .view
            .outputs
            .get(&key)
            .and_then(|result| result.documents.json(name))
            .cloned();
        self.note(Read::Output(key));
        Ok(found)
    }

    fn policies(
        &mut self,
        target: &ObjectRef,
        section: Option<&str>,
    ) -> Result<Vec<Arc<[u8]>>, Failure> {
        if self.layer == Layer::Base {
            return Err(Failure::Module(format!(
                "asked for the policies of {target}, which are not of a lower layer"
            )));
        }
        self.need_synced(CHITON_GROUP, "Policy")?;
        let target = self.view.inputs.key(target);
        let found = self.view.policies(&target, section);
        self.note(Read::Policies {
            target,
            section: section.map(str::to_owned),
        });
        Ok(found)
    }

    fn time_reached(&mut self, seconds: u64) -> bool {
        let reached = self.view.now >= Duration::from_secs(seconds);
        if !reached {
            let earliest = self.wake.map_or(seconds, |wake| wake.min(seconds));
            self.wake = Some(earliest);
        }
        reached
    }
}
