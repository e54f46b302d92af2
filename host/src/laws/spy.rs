//! The real reconcilers, watched: every call with all that it saw, so that it can be worked out
//! which calls were due.

use super::manifests::Fault;
use crate::modules::{Builtins, LiveModule, Modules, PolicyModule, Registry};
use crate::pipeline::World;
use crate::sandbox::{Description, Failure, Outcome, Reads, Reconciler, SharedReads};
use crate::store::{Key, Named, Object};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::policy::Policy;
use chiton_ir::{GroupKind, ObjectRef, documents};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

/// The built-in reconcilers that histories use.
pub const MODULES: [&str; 5] = ["gateway", "route", "api", "headers", "api-key"];

static BUILT_IN: LazyLock<BTreeMap<&str, Arc<LiveModule>>> = LazyLock::new(|| {
    let registry = Registry::offline(&Builtins::default()).expect("reconcilers that load");
    let live = registry.live();
    let by_kind = live.kinds().map(|(_, module)| module.clone());
    let policies = ["headers", "api-key"].map(|name| match live.policy(name) {
        PolicyModule::Live(module) => module,
        other => panic!("{name}: {other:?}"),
    });
    let all: Vec<_> = by_kind.chain(policies).collect();
    MODULES
        .into_iter()
        .map(|name| {
            let found = all.iter().find(|module| module.name == name);
            (name, found.expect("a module").clone())
        })
        .collect()
});

/// Something that a call saw.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Get(ObjectRef, Option<Arc<Object>>),
    List(GroupKind, Option<String>, LabelSelector, Vec<Arc<Object>>),
    Output(ObjectRef, String, Option<Arc<[u8]>>),
    Policies(ObjectRef, Option<String>, Vec<Arc<[u8]>>),
    Time(u64, bool),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    pub object: Arc<Object>,
    /// Module and version.
    pub module: (String, u32),
    pub seen: Vec<Seen>,
}

/// Calls since they were last looked at.
pub type Calls = Arc<Mutex<Vec<Call>>>;

/// A version of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub number: u32,
    /// Names of objects that it fails on.
    pub breaks: BTreeSet<&'static str>,
}

impl Version {
    pub fn fault(&self, key: &Key, of_object: Fault) -> Fault {
        if self.breaks.contains(key.name.as_str()) {
            Fault::Fails
        } else {
            of_object
        }
    }
}

/// A set of modules in these versions, which tells its calls.
pub fn modules(versions: &BTreeMap<&'static str, Version>, calls: &Calls) -> Arc<Modules> {
    let live = MODULES.map(|name| live(name, &versions[name], calls));
    Arc::new(Modules::new(live))
}

/// One module in a version.
pub fn live(name: &'static str, version: &Version, calls: &Calls) -> Arc<LiveModule> {
    let real = &BUILT_IN[name];
    let mut module = LiveModule::new(Arc::new(Spied {
        real: real.reconciler.clone(),
        version: version.clone(),
        calls: calls.clone(),
    }))
    .expect("a module");
    module.failure_policy = real.failure_policy;
    Arc::new(module)
}

struct Spied {
    real: Arc<dyn Reconciler>,
    version: Version,
    calls: Calls,
}

impl Reconciler for Spied {
    fn description(&self) -> &Description {
        self.real.description()
    }

    fn reconcile(
        &self,
        object: &Object,
        settings: &[u8],
        reads: SharedReads,
    ) -> Result<Outcome, Failure> {
        let watched = Arc::new(Mutex::new(Watched {
            reads,
            seen: Vec::new(),
        }));
        let result = self.real.reconcile(object, settings, watched.clone());
        self.calls.lock().unwrap().push(Call {
            object: Arc::new(object.clone()),
            module: (self.description().name.clone(), self.version.number),
            seen: std::mem::take(&mut watched.lock().unwrap().seen),
        });
        let body: serde_json::Value = serde_json::from_slice(&object.body).expect("JSON");
        let of_object = match body.pointer("/metadata/annotations/fault") {
            Some(fault) if fault == "fails" => Fault::Fails,
            Some(_) => Fault::NotReady,
            None => Fault::None,
        };
        match self.version.fault(&object.key, of_object) {
            Fault::None => result.map(|outcome| self.stamped(outcome)),
            Fault::Fails => Err(Failure::Module("as the history says".into())),
            Fault::NotReady => Ok(Outcome::NotReady("as the history says".into())),
        }
    }
}

impl Spied {
    /// Puts the version into documents, where they have a place for it.
    fn stamped(&self, outcome: Outcome) -> Outcome {
        let Outcome::Done {
            mut documents,
            conditions,
        } = outcome
        else {
            return outcome;
        };
        for (_, body) in &mut documents {
            let text = String::from_utf8(std::mem::take(body)).expect("JSON");
            *body = text
                .replace("-@", &format!("-{}", self.version.number))
                .into_bytes();
        }
        Outcome::Done {
            documents,
            conditions,
        }
    }
}

struct Watched {
    reads: SharedReads,
    seen: Vec<Seen>,
}

impl Reads for Watched {
    fn get(&mut self, object: &ObjectRef) -> Result<Option<Arc<Object>>, Failure> {
        let found = self.reads.lock().unwrap().get(object)?;
        self.seen.push(Seen::Get(object.clone(), found.clone()));
        Ok(found)
    }

    fn list(
        &mut self,
        kind: &GroupKind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        let found = self.reads.lock().unwrap().list(kind, namespace, selector)?;
        self.seen.push(Seen::List(
            kind.clone(),
            namespace.map(str::to_owned),
            selector.clone(),
            found.clone(),
        ));
        Ok(found)
    }

    fn output(&mut self, object: &ObjectRef, name: &str) -> Result<Option<Arc<[u8]>>, Failure> {
        let found = self.reads.lock().unwrap().output(object, name)?;
        self.seen
            .push(Seen::Output(object.clone(), name.to_owned(), found.clone()));
        Ok(found)
    }

    fn policies(
        &mut self,
        target: &ObjectRef,
        section: Option<&str>,
    ) -> Result<Vec<Arc<[u8]>>, Failure> {
        let found = self.reads.lock().unwrap().policies(target, section)?;
        let section = section.map(str::to_owned);
        self.seen
            .push(Seen::Policies(target.clone(), section, found.clone()));
        Ok(found)
    }

    fn time_reached(&mut self, seconds: u64) -> bool {
        let reached = self.reads.lock().unwrap().time_reached(seconds);
        self.seen.push(Seen::Time(seconds, reached));
        reached
    }
}

impl Call {
    /// Whether a call in this world would see the same.
    pub fn is_current(&self, world: &World) -> bool {
        let object = find(world, &self.object.key);
        object.is_some_and(|object| object.same_content(&self.object))
            && self.seen.iter().all(|seen| seen.is_current(world))
    }
}

/// Everything here looks at every object: slowly, and plainly.
impl Seen {
    fn is_current(&self, world: &World) -> bool {
        match self {
            Self::Get(object, found) => same(find(world, object), found.as_ref()),
            Self::List(kind, namespace, selector, found) => {
                let labels = |object: &Object| -> BTreeMap<String, String> {
                    let all = object.labels.iter();
                    all.map(|(k, v)| (k.to_string(), v.to_string())).collect()
                };
                let now: Vec<_> = world
                    .inputs
                    .objects()
                    .filter(|it| it.key.group_kind() == *kind)
                    .filter(|it| namespace.as_ref().is_none_or(|ns| it.key.namespace == *ns))
                    .filter(|it| selector.matches(&labels(it)))
                    .collect();
                now.len() == found.len()
                    && now.iter().zip(found).all(|(a, b)| same(Some(a), Some(b)))
            }
            Self::Output(object, name, found) => {
                let now = world.outputs.iter().find(|(key, _)| *object == **key);
                now.and_then(|(_, result)| result.documents.json(name)) == found.as_ref()
            }
            Self::Policies(target, section, found) => {
                let names = |policy: &Policy, section: Option<&String>| {
                    policy
                        .targets
                        .iter()
                        .any(|it| it.object == *target && it.section.as_ref() == section)
                };
                let mut now: Vec<_> = world
                    .outputs
                    .iter()
                    .filter_map(|(key, result)| {
                        let policy = result.documents.policy.as_ref()?;
                        let whole = names(policy, None);
                        (whole || section.is_some() && names(policy, section.as_ref())).then(|| {
                            let object = find(world, key).expect("an object");
                            let json = result.documents.json(documents::POLICY).expect("JSON");
                            ((!whole, object.created.clone(), key.clone()), json.clone())
                        })
                    })
                    .collect();
                now.sort();
                now.into_iter()
                    .map(|(_, json)| json)
                    .eq(found.iter().cloned())
            }
            // The clock stands still in histories.
            Self::Time(..) => true,
        }
    }
}

fn find<'a>(world: &'a World, object: &impl Named) -> Option<&'a Arc<Object>> {
    let mut all = world.inputs.objects();
    all.find(|it| it.key.parts() == object.parts())
}

fn same(a: Option<&Arc<Object>>, b: Option<&Arc<Object>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.key == b.key && a.same_content(b),
        (None, None) => true,
        _ => false,
    }
}
