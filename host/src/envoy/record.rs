//! What the data folder remembers of the running Envoy.

use super::Error;
use super::data_dir::{DataDir, file_error, write_whole};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;

/// The Envoy that a host started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Process id.
    pub pid: i32,
    /// When it started, in clock ticks after boot: with the id, it names one process.
    pub start_time: u64,
    /// Digest of binary version, bootstrap and arguments: whether the next host would start the same.
    pub fingerprint: String,
}

impl Record {
    /// The record, if there is one that can be read.
    pub fn read(dir: &DataDir) -> Option<Self> {
        let text = std::fs::read(dir.record()).ok()?;
        serde_json::from_slice(&text)
            .inspect_err(|error| {
                tracing::warn!(file = %dir.record().display(), "ignoring a record of Envoy that is damaged: {error}");
            })
            .ok()
    }

    /// Writes the record.
    pub fn write(&self, dir: &DataDir) -> Result<(), Error> {
        let text = serde_json::to_string(self)
            .map_err(std::io::Error::other)
            .map_err(file_error("write", &dir.record()))?;
        write_whole(&dir.record(), &text)
    }

    /// Forgets it.
    pub fn remove(dir: &DataDir) -> Result<(), Error> {
        match std::fs::remove_file(dir.record()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(file_error("remove", &dir.record())(error))
            }
            _ => Ok(()),
        }
    }
}
