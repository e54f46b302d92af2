//! Reading and writing a checkpoint's file.

use super::format::{self, Checkpoint, Damage, State};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Bytes that are written at once.
const BUFFER: usize = 256 * 1024;

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

/// Writes a checkpoint, whole or not at all, for this user alone.
pub(super) fn write(path: &Path, state: State) -> io::Result<()> {
    let new = path.with_extension("new");
    let written = write_new(&new, state).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // A disk that is full should not stay so because of it.
        let _ = fs::remove_file(&new);
    }
    written?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

fn write_new(new: &Path, state: State) -> io::Result<()> {
    match fs::remove_file(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)?;
    let mut out = BufWriter::with_capacity(BUFFER, file);
    format::encode(state, &mut out)?;
    out.flush()?;
    out.get_ref().sync_all()
}
