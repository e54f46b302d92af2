//! What a component must be before any of it runs.

use super::engine::Engine;
use super::fault;
use super::{Failure, Role};
use std::collections::BTreeSet;
use wasmtime::component::Component;

/// The package of the contract.
const PACKAGE: &str = "chiton:reconcile";
/// The version of the contract that this host serves.
pub const CONTRACT: &str = "0.1.0";
/// The most that a component may measure, in bytes.
pub const MAX_COMPONENT: usize = 16 << 20;

/// The first eight bytes of a core module and of a component: magic number, version and layer.
const CORE_MODULE: &[u8; 8] = b"\0asm\x01\0\0\0";
const COMPONENT: &[u8; 8] = b"\0asm\x0d\0\x01\0";

/// Interfaces that every role may import.
const COMMON: [&str; 4] = ["types", "objects", "clock", "logging"];
/// Interfaces that only some roles may import.
const OUTPUTS: &str = "outputs";
const ATTACHED: &str = "attached";

/// Why a component is refused. Each is a sentence for the module's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is nothing.
    #[error("the component is empty (0 bytes)")]
    Empty,
    /// It is too large.
    #[error("the component has {0} bytes; at most {MAX_COMPONENT} are allowed")]
    TooLarge(usize),
    /// It is something else.
    #[error("this is not a WebAssembly component: it does not begin with the magic number of one")]
    NotWasm,
    /// It is a core module.
    #[error("this is a core module; wrap it with `xtask componentize`")]
    CoreModule,
    /// It cannot be parsed or compiled.
    #[error("the component is truncated or damaged: {0}")]
    Damaged(String),
    /// Compiling it did not come to an end within the limits.
    #[error("the component could not be compiled within the limits of memory and time: {0}")]
    TooHard(String),
    /// It imports what is not of the contract.
    #[error("the component imports {}, which no reconciler may: a reconciler has no clock, file, network or environment of its own", .0.join(", "))]
    UnknownImports(Vec<String>),
    /// It imports what its role may not.
    #[error("the component imports {}, which a module of the role {role} may not", .imports.join(", "))]
    NotForRole {
        /// Its role.
        role: Role,
        /// The imports.
        imports: Vec<String>,
    },
    /// It was built for another version of the contract.
    #[error(
        "the component was built for {PACKAGE}@{0}; this host serves {PACKAGE}@{CONTRACT}: build it again with the SDK of this version"
    )]
    Contract(String),
    /// It exports no reconciler.
    #[error("the component does not export {PACKAGE}/reconciler@{CONTRACT}")]
    NoReconciler,
    /// An import or export has not the shape that the contract gives it.
    #[error("the component does not fit the contract: {0}")]
    Shape(String),
    /// It could not describe itself.
    #[error("the component could not describe itself: {0}")]
    Describe(Failure),
    /// What it says of itself cannot be.
    #[error("the component describes itself wrongly: {0}")]
    Description(String),
    /// It is not the module that was expected.
    #[error("{0}")]
    Unexpected(String),
}

/// Checks the outside of a component and compiles it. Takes time in proportion to its size: not for
/// a thread that serves others.
pub(super) fn compile(engine: &Engine, bytes: &[u8]) -> Result<Component, LoadError> {
    check_bytes(bytes)?;
    engine.compile_apart(bytes)?;
    let component = Component::from_binary(engine.wasm(), bytes)
        .map_err(|error| LoadError::Damaged(fault::root(&error)))?;
    let (imports, exports) = names(engine, &component);
    check_imports(&imports)?;
    check_exports(&exports)?;
    Ok(component)
}

fn check_bytes(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if bytes.len() > MAX_COMPONENT {
        return Err(LoadError::TooLarge(bytes.len()));
    }
    if bytes.starts_with(COMPONENT) {
        return Ok(());
    }
    if bytes.starts_with(CORE_MODULE) {
        return Err(LoadError::CoreModule);
    }
    if COMPONENT.starts_with(bytes) || CORE_MODULE.starts_with(bytes) {
        return Err(LoadError::Damaged("it ends within its header".into()));
    }
    Err(LoadError::NotWasm)
}

/// Names of what a component imports and exports.
fn names(engine: &Engine, component: &Component) -> (Vec<String>, Vec<String>) {
    let shape = component.component_type();
    let imports = shape
        .imports(engine.wasm())
        .map(|(name, _)| name.to_owned());
    let exports = shape
        .exports(engine.wasm())
        .map(|(name, _)| name.to_owned());
    (imports.collect(), exports.collect())
}

fn check_imports(imports: &[String]) -> Result<(), LoadError> {
    let unknown: Vec<String> = imports
        .iter()
        .filter(|import| interface(import).is_none())
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Err(LoadError::UnknownImports(unknown));
    }
    check_versions(imports)
}

fn check_versions<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), LoadError> {
    for name in names {
        if let Some((_, version)) = interface(name)
            && version != CONTRACT
        {
            return Err(LoadError::Contract(version.to_owned()));
        }
    }
    Ok(())
}

/// Exports of other names are let be: some toolchains add their own.
fn check_exports(exports: &[String]) -> Result<(), LoadError> {
    let reconcilers: Vec<&String> = exports
        .iter()
        .filter(|export| interface(export).is_some_and(|(name, _)| name == "reconciler"))
        .collect();
    if reconcilers
        .iter()
        .any(|export| interface(export).is_some_and(|(_, version)| version == CONTRACT))
    {
        return Ok(());
    }
    check_versions(reconcilers)?;
    Err(LoadError::NoReconciler)
}

/// Interface and version of a name that is of the contract's package, whatever its version.
fn interface(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    let (interface, version) = rest.split_once('@').unwrap_or((rest, "(no version)"));
    let known = COMMON.contains(&interface)
        || [OUTPUTS, ATTACHED, "reconciler"].contains(&interface)
        || version != CONTRACT;
    known.then_some((interface, version))
}

/// Whether the component imports only what its role may.
pub(super) fn check_role(
    engine: &Engine,
    component: &Component,
    role: Role,
) -> Result<(), LoadError> {
    let beyond: &[&str] = match role {
        Role::Gateway | Role::Policy => &[],
        Role::Api => &[OUTPUTS],
        Role::Route => &[OUTPUTS, ATTACHED],
    };
    let allowed: BTreeSet<&str> = COMMON.iter().chain(beyond).copied().collect();
    let imports: Vec<String> = names(engine, component)
        .0
        .into_iter()
        .filter(|import| interface(import).is_none_or(|(name, _)| !allowed.contains(name)))
        .collect();
    if imports.is_empty() {
        Ok(())
    } else {
        Err(LoadError::NotForRole { role, imports })
    }
}
