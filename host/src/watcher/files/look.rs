//! What one file holds at this moment.

use super::object::{Contents, contents};
use super::problem::Problem;
use super::scan::{Found, Stamp};
use super::{MAX_FILE_BYTES, parse};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// What is found in a file.
pub enum Look {
    Good(Contents),
    /// Nothing but white space: it may be about to be written.
    Blank,
    /// Why it cannot be used.
    Unusable(Box<Problem>),
    Gone,
}

/// What is found in a file, and its stamp: of the same moment if it could be read, none if it is gone.
pub type Looked = (Look, Option<Stamp>);

/// Looks into a file; `holds` says whether it has good objects.
pub fn look(found: &Found, holds: bool) -> Looked {
    match read_file(&found.real) {
        Ok((bytes, stamp)) => {
            let look = if bytes.iter().all(u8::is_ascii_whitespace) {
                Look::Blank
            } else {
                match usable(&found.path, &bytes, holds) {
                    Ok(contents) => Look::Good(contents),
                    Err(problem) => Look::Unusable(problem),
                }
            };
            (look, Some(stamp))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (Look::Gone, None),
        Err(error) => {
            let problem = Problem::new(
                &found.path,
                format!("cannot be read: {error}"),
                advice(holds, "make it readable"),
            );
            (Look::Unusable(Box::new(problem)), Some(found.stamp))
        }
    }
}

/// Looks into files of which none has good objects, on all cores.
pub fn look_at_all(files: &[&Found]) -> Vec<Looked> {
    // One at a time: files differ much in size.
    let files = files.par_iter().with_max_len(1);
    files.map(|found| look(found, false)).collect()
}

/// What the file holds, or why it cannot be used.
fn usable(path: &Path, bytes: &[u8], holds: bool) -> Result<Contents, Box<Problem>> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Box::new(Problem::new(
            path,
            format!("is larger than {} MiB", MAX_FILE_BYTES / 1024 / 1024),
            advice(holds, "split it"),
        )));
    }
    let documents = parse::documents(path, bytes).map_err(|fault| {
        let problem = Problem::new(
            path,
            format!("does not parse: {}", fault.reason),
            advice(holds, "correct it"),
        );
        Box::new(match fault.line {
            Some(line) => problem.at(line),
            None => problem,
        })
    })?;
    Ok(contents(path, documents))
}

fn advice(holds: bool, advice: &str) -> String {
    if holds {
        format!("{advice}; its last good objects are kept")
    } else {
        format!("{advice}; nothing of it is used")
    }
}

/// The file's bytes and its stamp, of the same moment.
fn read_file(real: &Path) -> std::io::Result<(Vec<u8>, Stamp)> {
    let file = File::open(real)?;
    let stamp = Stamp::of(&file.metadata()?);
    let mut bytes = Vec::new();
    // One byte more than allowed, so that a file that is too large is seen to be.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes, stamp))
}
