//! Words and sentences of the conditions that the synchronizer writes.

pub use chiton_ir::condition::words::{ACCEPTED, CONFLICTED, INVALID, RESOLVED_REFS};
use chiton_ir::{Condition, ConditionStatus};
use std::collections::BTreeSet;

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
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for sentence in sentences {
        let sentence = sentence.as_ref();
        if !seen.insert(sentence.to_owned()) || seen.len() > MAX_SENTENCES {
            continue;
        }
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(sentence);
    }
    match seen.len().saturating_sub(MAX_SENTENCES) {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_sentences_are_written() {
        assert_eq!(join(["a", "b", "a"]), "a; b");
        let many: Vec<_> = (0..20).map(|index| index.to_string()).collect();
        assert_eq!(join(&many), "0; 1; 2; 3; 4; 5; 6; 7; and 12 more");
    }
}
