//! From an offer to a module that could go live.

use super::offer::Offer;
use super::{LiveModule, Manifest};
use crate::sandbox::{Component, Engine, Failure, LoadError, Role, Terms};
use std::sync::Arc;

/// Times that a module is asked to describe itself, if the fault may be a busy host's.
const TRIES: usize = 3;

/// A module that is compiled and fits the contract, with its bytes, which are saved when it goes
/// live.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub module: Arc<LiveModule>,
    pub bytes: Arc<[u8]>,
}

/// Verifies and compiles fetched bytes. `role` is the one that a built-in module of that name has.
///
/// # Errors
/// A sentence for the module's author.
pub(super) fn compile(
    engine: &Engine,
    manifest: &Manifest,
    bytes: Vec<u8>,
    role: Option<Role>,
) -> Result<Candidate, String> {
    let terms = Terms {
        name: Some(manifest.name.clone()),
        role,
        granted: Some(manifest.reads.clone()),
        limits: manifest.limits,
    };
    let component = load(engine, &bytes, &terms).map_err(|error| error.to_string())?;
    let digest = component.digest().to_owned();
    let mut module = LiveModule::new(Arc::new(component))?;
    check_handles(manifest, &module)?;
    module.version.clone_from(&manifest.version);
    module.digest = digest;
    module.settings = manifest.settings.to_string().into_bytes().into();
    module.granted.clone_from(&manifest.reads);
    module.failure_policy = manifest.failure_policy;
    module.limits = manifest.limits;
    Ok(Candidate {
        module: Arc::new(module),
        bytes: bytes.into(),
    })
}

/// Fetches and compiles an offer, saying how far it is in between.
pub(super) fn prepare(
    engine: &Engine,
    offer: &Offer,
    role: Option<Role>,
    mut fetched: impl FnMut(&str),
) -> Result<Candidate, String> {
    let manifest = offer.manifest.as_ref().map_err(Clone::clone)?;
    let bytes = offer.fetch(manifest)?;
    fetched(&crate::sandbox::digest(&bytes));
    compile(engine, manifest, bytes, role)
}

fn load(engine: &Engine, bytes: &[u8], terms: &Terms) -> Result<Component, LoadError> {
    let mut tries = 1;
    loop {
        match Component::load(engine, bytes, terms) {
            Err(LoadError::Describe(Failure::Host(_))) if tries < TRIES => tries += 1,
            result => return result,
        }
    }
}

fn check_handles(manifest: &Manifest, module: &LiveModule) -> Result<(), String> {
    let Some(allowed) = &manifest.handles else {
        return Ok(());
    };
    match module.handles.iter().find(|kind| !allowed.contains(kind)) {
        Some(kind) => Err(format!(
            "the component handles {kind}, which its manifest does not name under `handles`"
        )),
        None => Ok(()),
    }
}
