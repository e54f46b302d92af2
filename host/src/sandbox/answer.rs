//! Whether what a module returned is what the contract allows.

use super::{Failure, Outcome, Role};
use chiton_ir::{Condition, documents};
use std::collections::BTreeSet;

/// Bounds of the contract, in characters or in number.
const MAX_CONDITIONS: usize = 1_024;
const MAX_TYPE: usize = 316;
const MAX_REASON: usize = 1_024;
const MAX_MESSAGE: usize = 32_768;
/// What is kept of a module's own error.
pub(super) const MAX_FAILURE: usize = 4_096;

/// The outcome with messages cut to their bound, or what is wrong with it.
pub(super) fn check(outcome: Outcome, role: Role, limit: usize) -> Result<Outcome, Failure> {
    match outcome {
        Outcome::NotReady(reason) => Ok(Outcome::NotReady(cut(reason, MAX_FAILURE))),
        Outcome::Done {
            documents,
            conditions,
        } => {
            check_size(&documents, &conditions, limit)?;
            check_documents(&documents, role)?;
            check_conditions(&conditions)?;
            let conditions = conditions
                .into_iter()
                .map(|condition| Condition {
                    message: cut(condition.message, MAX_MESSAGE),
                    ..condition
                })
                .collect();
            Ok(Outcome::Done {
                documents,
                conditions,
            })
        }
    }
}

fn check_size(
    documents: &[(String, Vec<u8>)],
    conditions: &[Condition],
    limit: usize,
) -> Result<(), Failure> {
    let documents: usize = documents
        .iter()
        .map(|(name, body)| name.len() + body.len())
        .sum();
    let conditions: usize = conditions
        .iter()
        .map(|it| it.r#type.len() + it.reason.len() + it.message.len())
        .sum();
    let size = documents + conditions;
    if size > limit {
        return refuse(format!(
            "it returned {size} bytes, more than its output limit of {limit}"
        ));
    }
    Ok(())
}

fn check_documents(documents: &[(String, Vec<u8>)], role: Role) -> Result<(), Failure> {
    let own = match role {
        Role::Gateway => documents::GATEWAY,
        Role::Route => documents::ROUTE,
        Role::Api => documents::API,
        Role::Policy => documents::POLICY,
    };
    if let Some((name, _)) = documents.iter().find(|(name, _)| name != own) {
        return refuse(format!(
            "it returned a document {:?}; a module of the role {role} returns `{own}`",
            cut(name.clone(), 80)
        ));
    }
    if documents.len() > 1 {
        return refuse(format!("it returned the document `{own}` more than once"));
    }
    Ok(())
}

fn check_conditions(conditions: &[Condition]) -> Result<(), Failure> {
    if conditions.len() > MAX_CONDITIONS {
        return refuse(format!(
            "it returned {} conditions; at most {MAX_CONDITIONS} are allowed",
            conditions.len()
        ));
    }
    let mut seen = BTreeSet::new();
    for condition in conditions {
        if !is_word(&condition.r#type, MAX_TYPE) || !is_word(&condition.reason, MAX_REASON) {
            return refuse(format!(
                "it returned a condition whose type {:?} or reason {:?} is not one CamelCase word",
                cut(condition.r#type.clone(), 80),
                cut(condition.reason.clone(), 80)
            ));
        }
        if !seen.insert((&condition.scope, &condition.r#type)) {
            return refuse(format!(
                "it returned the condition {} more than once in one scope",
                condition.r#type
            ));
        }
    }
    Ok(())
}

/// Whether Kubernetes would take this as a condition's type or reason, more strictly: one word.
fn is_word(text: &str, limit: usize) -> bool {
    text.len() <= limit
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The text, cut at this many bytes, never within a character.
pub(super) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
    }
    text
}

fn refuse<T>(sentence: String) -> Result<T, Failure> {
    Err(Failure::Module(sentence))
}
