//! The life of modules: from a file or `ConfigMap` to a reconciler that owns objects.
//!
//! A module is *fetched*, *verified*, *compiled*, *tried*, *live* and at last *retired*. A step that
//! fails refuses that version; what was live before goes on. What is live is an immutable
//! [`Modules`], swapped whole, which the pipeline takes at the start of an epoch.
//!
//! | part | what it is for |
//! | --- | --- |
//! | `live` | the set of live modules, as the pipeline sees it |
//! | `builtin` | the reconcilers that come with the host |
//! | `offer`, `manifest` | a module as a `ConfigMap` offers it |
//! | `candidate`, `preparation` | verifying and compiling an offer, each on its own thread |
//! | `slots`, `info` | what is live, offered and retired, and what is shown of it |
//! | `saved` | the bytes of live modules, for a restart |
//! | `registry`, `consider` | all offers, and the steps of one |
//! | `roll_back` | a swap undone |

mod builtin;
mod candidate;
mod consider;
mod info;
mod live;
mod manifest;
mod offer;
mod preparation;
mod registry;
mod roll_back;
mod saved;
mod slots;
#[cfg(test)]
mod tests;

pub use builtin::{BuiltinError, Builtins, precompile};
pub use info::{ModuleInfo, ModuleState};
pub use live::{Changes, FailurePolicy, LiveModule, Modules, PolicyModule};
pub use manifest::Manifest;
pub use registry::{Registry, RegistryError};
