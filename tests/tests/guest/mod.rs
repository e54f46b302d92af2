//! Policy modules that no toolchain would make, written in WebAssembly text.

use anyhow::Context as _;
use std::fmt::Write as _;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Where static data begins in the guest's memory, and where what the host writes does.
const DATA: usize = 1024;
const HEAP: usize = 64 << 10;

/// `policy` in the enum `role`.
const ROLE_POLICY: usize = 3;

/// A policy module whose `reconcile` is these instructions, which must leave a pointer on the stack or
/// not return.
pub fn policy(name: &str, version: &str, body: &str) -> anyhow::Result<Vec<u8>> {
    Memory::default().component(name, version, body)
}

/// A policy module that runs these instructions and then returns this `policy` document, for every
/// object. Local 9 is the object's length in bytes.
pub fn answering(
    name: &str,
    version: &str,
    first: &str,
    document: &str,
) -> anyhow::Result<Vec<u8>> {
    let mut memory = Memory::default();
    let [document_at, document_len] = memory.text(document);
    let [name_at, name_len] = memory.text("policy");
    let list = memory.words(&[name_at, name_len, document_at, document_len]);
    // ok(done({documents, conditions: []}))
    let result = memory.words(&[0, 0, list, 1, 0, 0]);
    memory.component(name, version, &format!("{first} (i32.const {result})"))
}

/// Static memory in the making.
#[derive(Default)]
struct Memory(Vec<u8>);

impl Memory {
    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.0.len().next_multiple_of(8);
        self.0.resize(at, 0);
        self.0.extend_from_slice(bytes);
        DATA + at
    }

    fn text(&mut self, text: &str) -> [usize; 2] {
        [self.put(text.as_bytes()), text.len()]
    }

    fn words(&mut self, words: &[usize]) -> usize {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| u32::try_from(*word).unwrap_or(u32::MAX).to_le_bytes())
            .collect();
        self.put(&bytes)
    }

    fn component(mut self, name: &str, version: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        let [name_at, name_len] = self.text(name);
        let [version_at, version_len] = self.text(version);
        // name, version, role, handles, reads, settings-schema
        let description = self.words(&[
            name_at,
            name_len,
            version_at,
            version_len,
            ROLE_POLICY,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        let data = self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "\\{byte:02x}");
            text
        });
        let parameters = " i32".repeat(12);
        let text = format!(
            "(module
               (memory (export \"memory\") 2)
               (global $heap (mut i32) (i32.const {HEAP}))
               (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32)
                 (local $at i32)
                 (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                 (global.set $heap (i32.add (local.get $at) (local.get 3)))
                 (local.get $at))
               (func (export \"chiton:reconcile/reconciler@0.1.0#describe\") (result i32)
                 (i32.const {description}))
               (func (export \"chiton:reconcile/reconciler@0.1.0#reconcile\")
                 (param{parameters}) (result i32) {body})
               (data (i32.const {DATA}) \"{data}\"))"
        );
        encode(wat::parse_str(&text).with_context(|| text.clone())?)
    }
}

fn encode(mut module: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let contract = include_str!("../../../wit/chiton.wit");
    let package = resolve.push_str("chiton.wit", contract)?;
    let world = resolve.select_world(&[package], Some("policy"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .validate(true)
        .encode()
}
