//! Words and sentences of the conditions that the synchronizer writes.

pub use chiton_ir::condition::words::{ACCEPTED, CONFLICTED, INVALID, RESOLVED_REFS};
use chiton_ir::{Condition, ConditionStatus};

/// Condition of a route whose rules are in part invalid (GEP-1364).
pub const PARTIALLY_INVALID: &str = "PartiallyInvalid";
/// Condition of a policy of which something is replaced by another one.
pub const OVERRIDDEN: &str = "Overridden";

/// Most sentences in one message.
const MAX_SENTENCES: usize = 8;

/// A condition that holds and means something bad.
pub fn warns(r#type: &str, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        status: ConditionStatus::True,
        ..Condition::fails(r#type, reason, message)
    }
}

/// Joins sentences, each once, the first few only.
pub fn join<S: AsRef<str>>(sentences: impl IntoIterator<Item = S>) -> String {
    let mut all: Vec<String> = Vec::new();
    for sentence in sentences {
        let sentence = sentence.as_ref();
        if !all.iter().any(|known| known == sentence) {
            all.push(sentence.to_owned());
        }
    }
    let more = all.len().saturating_sub(MAX_SENTENCES);
    all.truncate(MAX_SENTENCES);
    let mut text = all.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}
