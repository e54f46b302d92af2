//! Status as a table for people.

use super::ObjectStatus;
use crate::modules::ModuleInfo;
use chiton_ir::{Condition, ConditionStatus, Scope};

/// A table of objects: one line each, and one more for each condition that says something is wrong.
#[must_use]
pub fn table(objects: &[ObjectStatus]) -> String {
    let mut text = String::new();
    let lines = align(["KIND", "NAME", "CONDITIONS"], objects.iter().map(row));
    let problems = objects.iter().map(|object| {
        object
            .conditions
            .iter()
            .filter(|condition| is_problem(condition))
    });
    // The first line is the header, which has no problems.
    let problems = std::iter::once(None).chain(problems.map(Some));
    for (line, problems) in lines.iter().zip(problems) {
        text.push_str(line);
        for condition in problems.into_iter().flatten() {
            text.push_str("\n    ");
            text.push_str(&problem(condition));
        }
        text.push('\n');
    }
    text
}

/// A table of modules.
#[must_use]
pub fn modules_table(modules: &[ModuleInfo]) -> String {
    let rows = modules.iter().map(|module| {
        let digest = module.digest.get(..12).unwrap_or(&module.digest).to_owned();
        [
            module.name.clone(),
            module.version.clone(),
            digest,
            module.state.to_string(),
            module.reconciles.to_string(),
            module.failures.to_string(),
            module.source.clone(),
            module.reason.clone(),
        ]
    });
    let header = [
        "MODULE",
        "VERSION",
        "DIGEST",
        "STATE",
        "RECONCILES",
        "FAILURES",
        "SOURCE",
        "REASON",
    ];
    align(header, rows).join("\n") + "\n"
}

/// Lines whose columns stand below each other.
fn align<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<String> {
    let rows: Vec<[String; N]> = std::iter::once(header.map(str::to_owned))
        .chain(rows)
        .collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// Whether a condition says that something is not as its author wants it.
#[must_use]
pub fn is_problem(condition: &Condition) -> bool {
    let good = match condition.r#type.as_str() {
        "Conflicted" | "PartiallyInvalid" | "Overridden" | "OverlappingTLSConfig" => {
            ConditionStatus::False
        }
        _ => ConditionStatus::True,
    };
    condition.status != good
}

/// `Accepted=False (NoMatchingParent) at Gateway a/b: …`.
#[must_use]
pub fn problem(condition: &Condition) -> String {
    let place = match &condition.scope {
        Scope::Object => String::new(),
        Scope::Section(section) => format!(" at listener {section}"),
        Scope::Parent(parent) => format!(" at {parent}"),
    };
    printable(&format!(
        "{}={:?} ({}){place}: {}",
        condition.r#type, condition.status, condition.reason, condition.message
    ))
}

/// The text with control characters written out, so that a name cannot play with a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn row(object: &ObjectStatus) -> [String; 3] {
    let name = if object.namespace.is_empty() {
        object.name.clone()
    } else {
        format!("{}/{}", object.namespace, object.name)
    };
    let mut good: Vec<&str> = object
        .conditions
        .iter()
        .filter(|condition| !is_problem(condition) && condition.status == ConditionStatus::True)
        .map(|condition| condition.r#type.as_str())
        .collect();
    good.sort_unstable();
    good.dedup();
    let problems = object
        .conditions
        .iter()
        .filter(|condition| is_problem(condition))
        .count();
    let mut summary = good.join(" ");
    if problems > 0 {
        let s = if problems == 1 { "" } else { "s" };
        summary = format!("{summary}  {problems} problem{s}");
    }
    [
        printable(&object.kind),
        printable(&name),
        summary.trim_start().to_owned(),
    ]
}
