//! What a host served, on disk, so that the next one can serve it before it knows better.
//!
//! A host that starts knows nothing until every kind is listed, every module is live or refused and the
//! first epoch is committed. Proxies that connect meanwhile, fresh ones above all, get what the
//! checkpoint holds; then the complete state replaces it at once, removals included. The checkpoint
//! also holds the good results of reconcilers, on which objects fall back whose module fails
//! afterwards, and the objects themselves, for files that are broken when the next host starts.
//! Deleting it loses these fallbacks, and nothing else.
//!
//! It holds no secrets. Of Secrets it has names only, of certificates it has names and versions; what has API keys in it (virtual
//! hosts and route configurations, because Envoy takes keys nowhere else) is left out: proxies that
//! have it keep it, fresh ones get it when the host is ready, and answer 404 until then.
//!
//! | part | what it is for |
//! | --- | --- |
//! | `format` | the bytes |
//! | `inputs` | the objects of files |
//! | `file` | reading and writing them whole or not at all |
//! | `keeper` | the task that saves what is served |

mod file;
mod format;
mod inputs;
mod keeper;
#[cfg(test)]
mod tests;

pub use file::{ReadError, read};
pub use format::{Checkpoint, Damage, FORMAT, Fleet};
pub use keeper::{Keeper, Metrics};

use crate::store::Object;
use std::path::Path;
use tracing::{info, warn};

/// The checkpoint in a file, if there is one that can be used. What is wrong with one that cannot be
/// used is logged; the next save replaces it.
#[must_use]
pub fn load(path: &Path) -> Option<Checkpoint> {
    match read(path) {
        Ok(Some(checkpoint)) => {
            let resources: usize = checkpoint
                .fleets
                .values()
                .map(|it| it.resources.len())
                .sum();
            let withheld: usize = checkpoint.fleets.values().map(|it| it.withheld.len()).sum();
            info!(
                resources,
                withheld,
                results = checkpoint.results.len(),
                "serving what was served before, until this host is ready"
            );
            Some(checkpoint)
        }
        Ok(None) => None,
        Err(error) => {
            warn!(
                file = %path.display(),
                "the checkpoint is ignored, so proxies hear nothing before this host is ready: {error}"
            );
            None
        }
    }
}

/// The objects that files held when the checkpoint was saved; none if there is none that can be used,
/// which [`load`] has told. A Secret has no content.
#[must_use]
pub fn inputs(path: &Path) -> Vec<Object> {
    let bytes = std::fs::read(path).unwrap_or_default();
    inputs::decode(&bytes).unwrap_or_default()
}
