//! The reconcilers that come with the host.

use super::{FailurePolicy, LiveModule};
use crate::sandbox::{Component, Engine, Limits, LoadError, Role, Terms};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// Which built-in reconcilers are active, and where they come from.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    /// Names of those that are active; none: all.
    pub enabled: Option<Vec<String>>,
    /// A folder of components, `<name>.wasm` each, instead of those in this binary.
    pub dir: Option<PathBuf>,
}

/// Why the built-in reconcilers cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum BuiltinError {
    /// A name that none of them has.
    #[error("there is no built-in reconciler `{name}`; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// The folder cannot be read.
    #[error("the reconcilers in {path} cannot be read: {reason}", path = path.display())]
    Folder {
        /// The folder or a file in it.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// One of them does not load.
    #[error("the reconciler `{name}` is refused: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

/// A built-in reconciler.
#[derive(Clone, Debug)]
pub(super) struct Builtin {
    pub module: Arc<LiveModule>,
    pub source: String,
}

/// What is generous enough for the largest object that the host takes: a route of 10,000 rules.
fn limits() -> Limits {
    Limits {
        time: Duration::from_secs(5),
        memory: 256 << 20,
        output: 16 << 20,
        reads: 64 << 20,
        ..Limits::default()
    }
}

/// Loads those that are active, side by side.
pub(super) fn load(
    engine: &Engine,
    wanted: &Builtins,
) -> Result<BTreeMap<String, Builtin>, BuiltinError> {
    let mut components = match &wanted.dir {
        Some(dir) => from_folder(dir)?,
        None => embedded(),
    };
    if let Some(enabled) = &wanted.enabled {
        check_known(enabled, &components)?;
        components.retain(|name, _| enabled.contains(name));
    }
    std::thread::scope(|scope| {
        let loading: Vec<_> = components
            .into_iter()
            .map(|(name, (source, bytes))| {
                scope.spawn(move || load_one(engine, &name, source, &bytes).map(|it| (name, it)))
            })
            .collect();
        loading
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(BuiltinError::Refused {
                        name: "?".into(),
                        reason: "loading it panicked".into(),
                    })
                })
            })
            .collect()
    })
}

/// Compiles all of them into a folder of compiled modules.
///
/// # Errors
/// The folder cannot be used, or one of them does not load.
pub fn precompile(folder: &Path, program: PathBuf) -> anyhow::Result<()> {
    let engine = Engine::compiling_apart(folder, program)?;
    load(&engine, &Builtins::default())?;
    Ok(())
}

type Components = BTreeMap<String, (String, Vec<u8>)>;

fn embedded() -> Components {
    EMBEDDED
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), ("built-in".to_owned(), bytes.to_vec())))
        .collect()
}

fn from_folder(dir: &Path) -> Result<Components, BuiltinError> {
    let refuse = |path: &Path, error: &std::io::Error| BuiltinError::Folder {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut components = Components::new();
    for entry in std::fs::read_dir(dir).map_err(|error| refuse(dir, &error))? {
        let path = entry.map_err(|error| refuse(dir, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|error| refuse(&path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        components.insert(name.into_owned(), (path.display().to_string(), bytes));
    }
    if components.is_empty() {
        return Err(BuiltinError::Folder {
            path: dir.to_owned(),
            reason: "it has no .wasm file".into(),
        });
    }
    Ok(components)
}

fn check_known(enabled: &[String], components: &Components) -> Result<(), BuiltinError> {
    match enabled.iter().find(|name| !components.contains_key(*name)) {
        Some(name) => Err(BuiltinError::Unknown {
            name: name.clone(),
            known: components.keys().cloned().collect::<Vec<_>>().join(", "),
        }),
        None => Ok(()),
    }
}

pub(super) fn load_one(
    engine: &Engine,
    name: &str,
    source: String,
    bytes: &[u8],
) -> Result<Builtin, BuiltinError> {
    let terms = Terms {
        name: Some(name.to_owned()),
        role: expected_role(name),
        granted: None,
        limits: limits(),
    };
    let refuse = |reason: String| BuiltinError::Refused {
        name: name.to_owned(),
        reason,
    };
    let component = Component::load(engine, bytes, &terms)
        .map_err(|error: LoadError| refuse(error.to_string()))?;
    let digest = component.digest().to_owned();
    let mut module = LiveModule::new(Arc::new(component)).map_err(refuse)?;
    module.digest = digest;
    module.limits = limits();
    // Whoever asks for keys must not be let past them because a module fails.
    if name == "api-key" {
        module.failure_policy = FailurePolicy::FailClosed;
    }
    Ok(Builtin {
        module: Arc::new(module),
        source,
    })
}

fn expected_role(name: &str) -> Option<Role> {
    match name {
        "gateway" => Some(Role::Gateway),
        "route" => Some(Role::Route),
        "api" => Some(Role::Api),
        "headers" | "cors" | "rate-limit" | "api-key" => Some(Role::Policy),
        _ => None,
    }
}
