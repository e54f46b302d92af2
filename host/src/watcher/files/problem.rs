//! What is wrong with a file or an object in it.

use crate::store::Key;
use chiton_ir::ObjectRef;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// Something that the author of a file must know.
///
/// Objects whose [`crate::store::Object::problem`] is set have one too: a reader of the list need
/// not look for these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// File, relative to the manifests folder; empty for the folder itself.
    pub path: PathBuf,
    /// Line, from 1, if known.
    pub line: Option<usize>,
    /// The object, if it is about one that has an identity.
    pub object: Option<ObjectRef>,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub advice: String,
}

impl Problem {
    pub(super) fn new(path: &Path, reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            object: None,
            reason: reason.into(),
            advice: advice.into(),
        }
    }

    pub(super) fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    pub(super) fn of(mut self, object: &Key) -> Self {
        self.object = Some(object.to_ref());
        self
    }
}

/// `file:line: Kind namespace/name: what; what to do`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str().is_empty() {
            f.write_str(".")?;
        } else {
            write!(f, "{}", self.path.display())?;
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(object) = &self.object {
            write!(f, ": {}", printable(&object.to_string()))?;
        }
        write!(f, ": {}", self.reason)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// The text without control characters, so that a name cannot play with a terminal, and cut to a
/// length that a line can bear.
pub(super) fn printable(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .flat_map(|c| -> Box<dyn Iterator<Item = char>> {
            if c.is_control() {
                Box::new(c.escape_default())
            } else {
                Box::new(std::iter::once(c))
            }
        })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
