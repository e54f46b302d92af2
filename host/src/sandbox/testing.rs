//! Guests for tests, written in WebAssembly text and wrapped as components.
//!
//! Each is a core module with static memory that plays the canonical ABI by hand, so that a test can
//! make a guest do what no toolchain would.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Engine, Failure, Reads, Role};
use crate::store::{Key, Object};
use chiton_ir::gateway::LabelSelector;
use chiton_ir::{GroupKind, ObjectRef};
use std::fmt::Write;
use std::sync::{Arc, LazyLock, Mutex};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The contract as text.
pub(crate) const CONTRACT: &str = include_str!("../../../wit/chiton.wit");

/// Where static data begins in a guest's memory, and where its heap does.
const DATA: usize = 1024;
const HEAP: usize = 256 << 10;

/// One engine for all tests.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(None).expect("an engine"));
    &ENGINE
}

/// A guest in the making.
pub(crate) struct Guest {
    pub name: String,
    pub version: String,
    pub role: Role,
    pub handles: Vec<GroupKind>,
    pub reads: Vec<GroupKind>,
    pub schema: String,
    /// Contract to build against, and its version in export and import names.
    pub contract: String,
    pub contract_version: String,
    /// Instructions of `reconcile`. Locals 8 and 9 are the object's pointer and length, 10 and 11
    /// the settings'; what it leaves on the stack is the pointer to the result.
    pub body: String,
    /// Imports and functions besides.
    pub extra: String,
    /// Instructions before `describe` returns.
    pub before_describe: String,
    pub exports_reconciler: bool,
    data: Vec<u8>,
}

impl Guest {
    pub(crate) fn new(name: &str, role: Role) -> Self {
        let mut guest = Self {
            name: name.into(),
            version: "1.0.0".into(),
            role,
            handles: Vec::new(),
            reads: Vec::new(),
            schema: String::new(),
            contract: CONTRACT.into(),
            contract_version: super::CONTRACT.into(),
            body: String::new(),
            extra: String::new(),
            before_describe: String::new(),
            exports_reconciler: true,
            data: Vec::new(),
        };
        let done = guest.done(&[]);
        guest.body = constant(done);
        guest
    }

    /// A policy module that returns this `policy` document for every object.
    pub(crate) fn policy(name: &str, document: &str) -> Self {
        let mut guest = Self::new(name, Role::Policy);
        let done = guest.done(&[("policy", document)]);
        guest.body = constant(done);
        guest
    }

    /// A policy module that runs these instructions and then returns nothing.
    pub(crate) fn doing(name: &str, instructions: &str) -> Self {
        let mut guest = Self::new(name, Role::Policy);
        guest.body = format!("{instructions} {}", guest.body);
        guest
    }

    /// Puts bytes into memory, aligned to 8.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let padded = self.data.len().next_multiple_of(8);
        self.data.resize(padded, 0);
        self.data.extend_from_slice(bytes);
        DATA + padded
    }

    /// The memory so far, from address 0.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [vec![0; DATA], self.data.clone()].concat()
    }

    fn words(&mut self, words: &[usize]) -> usize {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| u32::try_from(*word).expect("a small word").to_le_bytes())
            .collect();
        self.put(&bytes)
    }

    /// Pointer and length of a string.
    pub(crate) fn text(&mut self, text: &str) -> [usize; 2] {
        [self.put(text.as_bytes()), text.len()]
    }

    /// A result `ok(done(..))` with these documents.
    pub(crate) fn done(&mut self, documents: &[(&str, &str)]) -> usize {
        let mut list = Vec::new();
        for (name, body) in documents {
            list.extend(self.text(name));
            list.extend(self.text(body));
        }
        let at = self.words(&list);
        self.words(&[0, 0, at, documents.len(), 0, 0])
    }

    /// A result `ok(not-ready(..))`.
    pub(crate) fn not_ready(&mut self, reason: &str) -> usize {
        let [at, len] = self.text(reason);
        self.words(&[0, 1, at, len, 0, 0])
    }

    /// A result `err(..)`.
    pub(crate) fn failure(&mut self, sentence: &str) -> usize {
        let [at, len] = self.text(sentence);
        self.words(&[1, at, len, 0, 0, 0])
    }

    /// Instructions that call `get` for an object.
    pub(crate) fn get(&mut self, object: &ObjectRef) -> String {
        self.import("objects", "get", 9);
        let mut code = String::new();
        for part in [&object.group, &object.kind, &object.namespace, &object.name] {
            let [at, len] = self.text(part);
            let _ = write!(code, "(i32.const {at}) (i32.const {len}) ");
        }
        let answer = self.words(&[0, 0, 0]);
        format!("{code} (i32.const {answer}) call $get ")
    }

    /// Where the answer of the last [`Guest::get`] is: whether there is one, pointer and length.
    pub(crate) fn answer(&self) -> usize {
        DATA + self.data.len() - 12
    }

    /// Instructions that log a message at level `warn`.
    pub(crate) fn log(&mut self, message: &str) -> String {
        self.import("logging", "log", 3);
        let [at, len] = self.text(message);
        format!("(i32.const 0) (i32.const {at}) (i32.const {len}) call $log ")
    }

    /// Declares an imported function without a result, with parameters of 32 bits.
    pub(crate) fn import(&mut self, interface: &str, name: &str, params: usize) {
        let line = format!(
            "(import \"chiton:reconcile/{interface}@{}\" \"{name}\" (func ${name} (param{})))\n",
            self.contract_version,
            " i32".repeat(params)
        );
        if !self.extra.contains(&line) {
            self.extra.insert_str(0, &line);
        }
    }

    /// The core module, without the contract's metadata.
    pub(crate) fn core(&mut self) -> Vec<u8> {
        let description = self.description();
        let version = self.contract_version.clone();
        let before = &self.before_describe;
        let exports = if self.exports_reconciler {
            format!(
                "(func (export \"chiton:reconcile/reconciler@{version}#describe\") (result i32)
                   {before} (i32.const {description}))
                 (func (export \"chiton:reconcile/reconciler@{version}#reconcile\")
                   (param{}) (result i32) {})",
                " i32".repeat(12),
                self.body
            )
        } else {
            String::new()
        };
        let data = self.data.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "\\{byte:02x}");
            text
        });
        let text = format!(
            "(module {extra}
               (memory (export \"memory\") {pages})
               (global $heap (mut i32) (i32.const {HEAP}))
               (func $allocate (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32)
                 (local $at i32)
                 (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                 (global.set $heap (i32.add (local.get $at) (local.get 3)))
                 (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
                   (then (drop (memory.grow (i32.add (i32.div_u (local.get 3) (i32.const 65536)) (i32.const 1))))))
                 (local.get $at))
               {exports}
               (data (i32.const {DATA}) \"{data}\"))",
            extra = self.extra,
            pages = HEAP / 65_536 + 1,
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The component.
    pub(crate) fn build(mut self) -> Vec<u8> {
        let mut module = self.core();
        let mut resolve = Resolve::default();
        let package = resolve
            .push_str("chiton.wit", &self.contract)
            .expect("the contract parses");
        let world = resolve
            .select_world(&[package], Some(&self.role.to_string()))
            .expect("the world of the role");
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .expect("metadata");
        ComponentEncoder::default()
            .module(&module)
            .expect("a module with metadata")
            .validate(true)
            .encode()
            .expect("a component")
    }

    fn description(&mut self) -> usize {
        let name = self.text(&self.name.clone());
        let version = self.text(&self.version.clone());
        let handles = self.kinds(&self.handles.clone());
        let reads = self.kinds(&self.reads.clone());
        let schema = self.text(&self.schema.clone());
        let role = match self.role {
            Role::Gateway => 0,
            Role::Route => 1,
            Role::Api => 2,
            Role::Policy => 3,
        };
        let words = [
            &name[..],
            &version[..],
            &[role],
            &handles[..],
            &reads[..],
            &schema[..],
        ]
        .concat();
        self.words(&words)
    }

    fn kinds(&mut self, kinds: &[GroupKind]) -> [usize; 2] {
        let mut list = Vec::new();
        for kind in kinds {
            list.extend(self.text(&kind.group));
            list.extend(self.text(&kind.kind));
        }
        [self.words(&list), kinds.len()]
    }
}

/// An instruction that leaves a pointer on the stack.
pub(crate) fn constant(at: usize) -> String {
    format!("(i32.const {at})")
}

/// An object with a body.
pub(crate) fn object(group: &str, kind: &str, name: &str, body: &str) -> Arc<Object> {
    Arc::new(Object {
        key: Key::new(group, kind, "default", name),
        api_version: "v1".into(),
        labels: crate::store::Labels::default(),
        generation: 0,
        created: None,
        body: Arc::from(body.as_bytes()),
        problem: None,
        origin: None,
    })
}

/// A `Policy`.
pub(crate) fn policy_object(name: &str, body: &str) -> Arc<Object> {
    object("chiton.dev", "Policy", name, body)
}

/// Reads from a list of objects; remembers what was asked for.
#[derive(Default)]
pub(crate) struct World {
    pub objects: Vec<Arc<Object>>,
    pub asked: Vec<String>,
    pub unsynced: Option<GroupKind>,
}

impl World {
    pub(crate) fn shared(self) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(self))
    }
}

impl Reads for World {
    fn get(&mut self, object: &ObjectRef) -> Result<Option<Arc<Object>>, Failure> {
        self.asked.push(object.to_string());
        if self.unsynced == Some(object.group_kind()) {
            return Err(Failure::NotSynced(object.group_kind()));
        }
        Ok(self
            .objects
            .iter()
            .find(|found| *object == found.key)
            .cloned())
    }

    fn list(
        &mut self,
        kind: &GroupKind,
        _namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        self.asked.push(format!("list {kind}"));
        Ok(self
            .objects
            .iter()
            .filter(|found| {
                found.key.group_kind() == *kind && found.labels.match_selector(selector)
            })
            .cloned()
            .collect())
    }

    fn output(&mut self, object: &ObjectRef, name: &str) -> Result<Option<Arc<[u8]>>, Failure> {
        self.asked.push(format!("{name} of {object}"));
        Ok(None)
    }

    fn policies(
        &mut self,
        target: &ObjectRef,
        _section: Option<&str>,
    ) -> Result<Vec<Arc<[u8]>>, Failure> {
        self.asked.push(format!("policies of {target}"));
        Ok(Vec::new())
    }

    fn time_reached(&mut self, _seconds: u64) -> bool {
        false
    }
}
