//! Reconcilers that do what the object says.

use super::{key, role_kind};
use crate::modules::{FailurePolicy, LiveModule};
use crate::sandbox::{Description, Failure, Outcome, Reads, Reconciler, Role, SharedReads};
use crate::store::Object;
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{Condition, documents};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What a fake does, in order. Names are `Kind/name`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    Get(String),
    /// Gets a `ConfigMap` and then the one that its `spec.next` names.
    Follow(String),
    /// Lists `ConfigMap`s with these labels.
    List(BTreeMap<String, String>),
    Output(String),
    /// Policies of a target, and a section of it.
    Policies(String, Option<String>),
    Time(u64),
    /// Fails as the module's fault.
    Fail(String),
    /// Fails as the host's.
    Fault(String),
    NotReady(String),
    /// Panics, which no reconciler may.
    Panic,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    value: String,
    /// Whether the document leaves out what was read.
    #[serde(default)]
    deaf: bool,
    #[serde(default)]
    targets: Vec<String>,
    #[serde(default)]
    routes: Vec<String>,
    #[serde(default)]
    parents: Vec<String>,
    /// A document as it is, instead.
    raw: Option<Value>,
    /// No document and no condition; with `refuse` the condition that it is invalid.
    #[serde(default)]
    none: bool,
    #[serde(default)]
    refuse: bool,
}

/// Holds runs back until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    reached: AtomicBool,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    /// Whether a run has come to it.
    pub fn is_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        self.reached.store(true, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }
}

pub struct Fake {
    description: Description,
    /// Goes into every document.
    version: String,
    /// Runs of objects whose `spec.value` is `slow` wait for it.
    gate: Option<Arc<Gate>>,
    /// Every run fails.
    broken: bool,
}

impl Fake {
    pub fn new(role: Role) -> Self {
        Self {
            description: Description {
                name: format!("{role:?}").to_lowercase(),
                version: "1".into(),
                role,
                handles: vec![role_kind(role)],
                reads: Vec::new(),
                settings_schema: None,
            },
            version: "1".into(),
            gate: None,
            broken: false,
        }
    }

    pub fn named(mut self, name: &str) -> Self {
        self.description.name = name.into();
        self
    }

    pub fn version(mut self, version: &str) -> Self {
        self.version = version.into();
        self
    }

    pub fn broken(mut self) -> Self {
        self.broken = true;
        self
    }

    pub fn gated(mut self, gate: &Arc<Gate>) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub fn schema(mut self, schema: Value) -> Self {
        self.description.settings_schema = Some(schema);
        self
    }

    pub fn live(self) -> LiveModule {
        LiveModule::new(Arc::new(self)).expect("a schema")
    }

    pub fn live_with(self, policy: FailurePolicy) -> LiveModule {
        let mut module = self.live();
        module.failure_policy = policy;
        module
    }

    /// One of each role; the policy module is named `policy`.
    pub fn all() -> Vec<LiveModule> {
        [Role::Gateway, Role::Policy, Role::Route, Role::Api]
            .map(|role| Self::new(role).live())
            .into()
    }

    /// All but the policy module, and this one.
    pub fn with_policy(policy: LiveModule) -> Vec<LiveModule> {
        let mut modules: Vec<_> = [Role::Gateway, Role::Route, Role::Api]
            .map(|role| Self::new(role).live())
            .into();
        modules.push(policy);
        modules
    }

    fn document(&self, spec: &Spec, digest: &str) -> (String, Value) {
        let refs = |names: &[String]| -> Vec<Value> {
            names
                .iter()
                .map(|name| serde_json::to_value(key(name).to_ref()).unwrap())
                .collect()
        };
        match self.description.role {
            Role::Gateway => (
                documents::GATEWAY.into(),
                json!({"listeners": [], "addresses": [digest]}),
            ),
            Role::Route => {
                let parents: Vec<Value> = refs(&spec.parents)
                    .into_iter()
                    .map(|object| json!({"parent": {"object": object}, "listeners": []}))
                    .collect();
                (
                    documents::ROUTE.into(),
                    json!({"parents": parents, "rules": [{"name": digest, "matches": []}]}),
                )
            }
            Role::Api => {
                let routes = refs(&spec.routes);
                (
                    documents::API.into(),
                    json!({
                        "prefixes": [digest],
                        "production": routes.first(),
                        "sandbox": routes.get(1),
                    }),
                )
            }
            Role::Policy => {
                let targets: Vec<Value> = spec
                    .targets
                    .iter()
                    .map(|name| {
                        let (name, section) = match name.split_once('#') {
                            Some((name, section)) => (name, Some(section)),
                            None => (name.as_str(), None),
                        };
                        let object = serde_json::to_value(key(name).to_ref()).unwrap();
                        json!({"object": object, "section": section})
                    })
                    .collect();
                let effect = json!({"respond": {"status": 200, "body": digest}});
                (
                    documents::POLICY.into(),
                    json!({"targets": targets, "default": [effect]}),
                )
            }
        }
    }
}

fn take(step: &Step, reads: &mut dyn Reads, seen: &mut Vec<String>) -> Result<(), Failure> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match step {
        Step::Get(name) => {
            let found = reads.get(&key(name).to_ref())?;
            seen.push(found.map_or("none".into(), |object| text(&object.body)));
        }
        Step::Follow(name) => {
            let Some(object) = reads.get(&key(name).to_ref())? else {
                seen.push("none".into());
                return Ok(());
            };
            let body: Value = serde_json::from_slice(&object.body).unwrap();
            let next = body.pointer("/spec/next").and_then(Value::as_str);
            seen.push(text(&object.body));
            if let Some(next) = next {
                take(&Step::Get(next.to_owned()), reads, seen)?;
            }
        }
        Step::List(labels) => {
            let selector = LabelSelector {
                match_labels: labels.clone(),
                match_expressions: Vec::new(),
            };
            let kind = key("ConfigMap/x").group_kind();
            for object in reads.list(&kind, Some("default"), &selector)? {
                seen.push(text(&object.body));
            }
        }
        Step::Output(name) => {
            let object = key(name).to_ref();
            let document = match object.kind.as_str() {
                "Gateway" => documents::GATEWAY,
                "HTTPRoute" => documents::ROUTE,
                "API" => documents::API,
                _ => documents::POLICY,
            };
            let found = reads.output(&object, document)?;
            seen.push(found.map_or("none".into(), |body| text(&body)));
        }
        Step::Policies(name, section) => {
            for policy in reads.policies(&key(name).to_ref(), section.as_deref())? {
                seen.push(text(&policy));
            }
        }
        Step::Time(seconds) => seen.push(reads.time_reached(*seconds).to_string()),
        Step::Fail(reason) => return Err(Failure::Module(reason.clone())),
        Step::Fault(reason) => return Err(Failure::Host(reason.clone())),
        Step::NotReady(_) => {}
        Step::Panic => panic!("as the test asked"),
    }
    Ok(())
}

impl Reconciler for Fake {
    fn description(&self) -> &Description {
        &self.description
    }

    fn reconcile(
        &self,
        object: &Object,
        _settings: &[u8],
        reads: SharedReads,
    ) -> Result<Outcome, Failure> {
        let body: Value = serde_json::from_slice(&object.body).expect("JSON");
        let spec = Spec::deserialize(&body["spec"]).expect("a spec");
        if let Some(gate) = self.gate.as_ref().filter(|_| spec.value == "slow") {
            gate.pass();
        }
        if self.broken {
            return Err(Failure::Module("this version is broken".into()));
        }
        let mut seen = Vec::new();
        for step in &spec.steps {
            take(step, &mut *reads.lock().expect("reads"), &mut seen)?;
            if let Step::NotReady(reason) = step {
                return Ok(Outcome::NotReady(reason.clone()));
            }
        }
        let mut hasher = DefaultHasher::new();
        if !spec.deaf {
            seen.hash(&mut hasher);
        }
        let digest = format!("{} v{} {:x}", spec.value, self.version, hasher.finish());
        if spec.none {
            let refusal = Condition::fails("Accepted", "Invalid", "as the test asked");
            return Ok(Outcome::Done {
                documents: Vec::new(),
                conditions: spec.refuse.then_some(refusal).into_iter().collect(),
            });
        }
        let (name, document) = self.document(&spec, &digest);
        let document = spec.raw.unwrap_or(document);
        Ok(Outcome::Done {
            documents: vec![(name, document.to_string().into_bytes())],
            conditions: vec![Condition::holds("Accepted", "Accepted")],
        })
    }
}
