//! Reading and writing a checkpoint's file.

use super::format::{self, Checkpoint, Damage, State};
use crate::whole_file;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Why a checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
    /// What it holds is no checkpoint.
    #[error("{0}")]
    Damage(Damage),
}

/// The checkpoint in a file; none if there is no file.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path) -> Result<Option<Checkpoint>, ReadError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ReadError::Io(error)),
    };
    format::decode(&bytes).map(Some).map_err(ReadError::Damage)
}

/// Writes a checkpoint.
pub(super) fn write(path: &Path, state: State) -> io::Result<()> {
    whole_file::replace(path, |out| format::encode(state, out))
}
