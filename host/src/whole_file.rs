//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Bytes that are written at once.
const BUFFER: usize = 256 * 1024;

/// Replaces a file by what `write` writes, for this user alone. It is on the disk when this returns; if
/// anything fails the file is what it was.
///
/// # Errors
/// The disk is full, the folder may not be written, or `write` fails.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let new = path.with_extension("new");
    let written = write_new(&new, write).and_then(|()| fs::rename(&new, path));
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

fn write_new(new: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
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
    write(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()
}
