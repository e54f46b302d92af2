//! A compiled module that can be called.

use super::bindings::{self, GuestPre, types};
use super::call::{Call, Identity};
use super::engine::{Engine, MAX_MEMORY, TICK};
use super::front_door::{self, LoadError};
use super::{Description, Failure, Limits, Outcome, Reconciler, Role, SharedReads, answer, fault};
use crate::store::Object;
use chiton_ir::GroupKind;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use wasmtime::Store;

/// What a component is loaded under.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The name that it must give itself; none: any.
    pub name: Option<String>,
    /// The role that it must have; none: any.
    pub role: Option<Role>,
    /// Kinds that it may read, which must be all that it asks for; none: what it asks for, but
    /// never Secrets.
    pub granted: Option<BTreeSet<GroupKind>>,
    /// Limits of each call.
    pub limits: Limits,
}

/// A component, compiled, described and checked. Each call runs in a fresh instance.
pub struct Component {
    engine: Engine,
    pre: GuestPre<Call>,
    description: Description,
    identity: Identity,
    digest: String,
}

impl Component {
    /// Checks, compiles and describes a component. Blocks for as long as compiling takes.
    ///
    /// # Errors
    /// See [`LoadError`]; every step has its own.
    pub fn load(engine: &Engine, bytes: &[u8], terms: &Terms) -> Result<Self, LoadError> {
        let limits = Limits {
            memory: terms.limits.memory.min(MAX_MEMORY),
            ..terms.limits
        };
        let compiled = front_door::compile(engine, bytes)?;
        let pre = engine
            .linker()
            .instantiate_pre(&compiled)
            .and_then(GuestPre::new)
            .map_err(|error| LoadError::Shape(format!("{error:#}")))?;
        let nobody = Identity {
            module: terms.name.as_deref().unwrap_or("(being loaded)").into(),
            role: None,
            granted: Arc::default(),
            limits,
        };
        let description = describe(engine, &pre, &nobody)?;
        check_description(&description, terms)?;
        front_door::check_role(engine, &compiled, description.role)?;
        let granted = terms
            .granted
            .clone()
            .unwrap_or_else(|| description.reads.iter().cloned().collect());
        Ok(Self {
            engine: engine.clone(),
            pre,
            identity: Identity {
                module: description.name.as_str().into(),
                role: Some(description.role),
                granted: Arc::new(granted),
                limits,
            },
            description,
            digest: digest(bytes),
        })
    }

    /// SHA-256 of the component, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Kinds that the module may read.
    #[must_use]
    pub fn granted(&self) -> &BTreeSet<GroupKind> {
        &self.identity.granted
    }

    /// Limits of each call.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.identity.limits
    }
}

impl Reconciler for Component {
    fn description(&self) -> &Description {
        &self.description
    }

    fn reconcile(
        &self,
        object: &Object,
        settings: &[u8],
        reads: SharedReads,
    ) -> Result<Outcome, Failure> {
        let call = Call::new(self.identity.clone(), Some(object.key.clone()), Some(reads));
        let reference = types::ObjectRef::from(&object.key);
        let (body, settings) = (object.body.to_vec(), settings.to_vec());
        let answered = run(
            &self.engine,
            &self.pre,
            call,
            &self.identity.limits,
            |guest, store| {
                guest
                    .chiton_reconcile_reconciler()
                    .call_reconcile(store, &reference, &body, &settings)
            },
        )?;
        let outcome = answered
            .map(Outcome::from)
            .map_err(|sentence| Failure::Module(answer::cut(sentence, answer::MAX_FAILURE)))?;
        answer::check(outcome, self.description.role, self.identity.limits.output)
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component")
            .field("description", &self.description)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Calls a fresh instance. The store goes with the call: a trap leaves it unusable.
fn run<T>(
    engine: &Engine,
    pre: &GuestPre<Call>,
    call: Call,
    limits: &Limits,
    body: impl FnOnce(&super::bindings::Guest, &mut Store<Call>) -> wasmtime::Result<T>,
) -> Result<T, Failure> {
    let mut store = Store::new(engine.wasm(), call);
    store.limiter(|call| call);
    store.set_epoch_deadline(ticks(limits));
    store.set_hostcall_fuel(crossing(limits));
    let result = pre
        .instantiate(&mut store)
        .and_then(|guest| body(&guest, &mut store));
    match (store.into_data().finish(), result) {
        (Some(aborted), _) => Err(aborted),
        (None, Ok(value)) => Ok(value),
        (None, Err(error)) => Err(fault::failure(&error, limits)),
    }
}

/// Ticks of the engine's clock in the time limit. One more, because a tick may be about to come.
fn ticks(limits: &Limits) -> u64 {
    let ticks = limits.time.as_millis().div_ceil(TICK.as_millis());
    u64::try_from(ticks)
        .unwrap_or(u64::MAX / 2)
        .saturating_add(1)
}

/// Bytes that one crossing from guest to host may carry. More than the output limit, which is then
/// checked to the byte, by what the frames of lists and records take.
fn crossing(limits: &Limits) -> usize {
    limits.output.saturating_add(1 << 20)
}

fn describe(
    engine: &Engine,
    pre: &GuestPre<Call>,
    identity: &Identity,
) -> Result<Description, LoadError> {
    let call = Call::new(identity.clone(), None, None);
    let described = run(engine, pre, call, &identity.limits, |guest, store| {
        guest.chiton_reconcile_reconciler().call_describe(store)
    })
    .map_err(LoadError::Describe)?;
    bindings::description(described).map_err(LoadError::Description)
}

fn check_description(description: &Description, terms: &Terms) -> Result<(), LoadError> {
    let wrong = |sentence: String| Err(LoadError::Description(sentence));
    if !is_dns_label(&description.name) {
        return wrong(format!(
            "its name {:?} is not a DNS label (lower-case letters, digits and `-`, at most 63)",
            answer::cut(description.name.clone(), 80)
        ));
    }
    if description.version.is_empty() || description.version.len() > 64 {
        return wrong("its version must have 1 to 64 characters".into());
    }
    if let Some(kind) = description
        .handles
        .iter()
        .chain(&description.reads)
        .find(|kind| kind.kind.is_empty())
    {
        return wrong(format!(
            "it names a kind without a name (group {:?})",
            kind.group
        ));
    }
    if let Some(schema) = &description.settings_schema
        && let Err(error) = jsonschema::validator_for(schema)
    {
        return wrong(format!("its settings-schema is not a JSON schema: {error}"));
    }
    check_terms(description, terms)
}

fn check_terms(description: &Description, terms: &Terms) -> Result<(), LoadError> {
    let unexpected = |sentence: String| Err(LoadError::Unexpected(sentence));
    if let Some(name) = &terms.name
        && *name != description.name
    {
        return unexpected(format!(
            "the component calls itself `{}`, its manifest `{name}`",
            description.name
        ));
    }
    if let Some(role) = terms.role
        && role != description.role
    {
        return unexpected(format!(
            "the component has the role {}, not {role}",
            description.role
        ));
    }
    let missing: Vec<String> = match &terms.granted {
        Some(granted) => description
            .reads
            .iter()
            .filter(|kind| !granted.contains(kind))
            .map(ToString::to_string)
            .collect(),
        None => description
            .reads
            .iter()
            .filter(|kind| kind.group.is_empty() && kind.kind == "Secret")
            .map(ToString::to_string)
            .collect(),
    };
    if missing.is_empty() {
        return Ok(());
    }
    unexpected(format!(
        "the component asks to read {}, which its manifest does not grant: name the kind under `reads`",
        missing.join(", ")
    ))
}

/// Whether this is a label as in RFC 1123.
pub(crate) fn is_dns_label(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}
