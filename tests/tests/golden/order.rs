//! The same objects in other files and in another order lead to the same.

use crate::cases::{self, Case};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::path::Path;

/// Cases whose meaning is in the file: what a file holds beside a fault, and which of two objects of
/// one identity comes first.
const ABOUT_FILES: [&str; 3] = ["bad-syntax", "bad-duplicate", "bad-duplicate-key"];

#[test]
fn of_files_and_objects_does_not_matter() -> anyhow::Result<()> {
    cases::each(|case| {
        if ABOUT_FILES.contains(&case.name.as_str()) {
            return Ok(());
        }
        let split = tempfile::tempdir()?;
        split_up(case, split.path())?;
        let here: Value =
            serde_json::from_str(&case.render(case.folder()?.path(), &["-o", "json"])?)?;
        let there: Value = serde_json::from_str(&case.render(split.path(), &["-o", "json"])?)?;
        let (here, there) = (without_origins(here)?, without_origins(there)?);
        ensure!(
            here == there,
            "split up and turned round it renders otherwise:\n{there}\ninstead of\n{here}"
        );
        Ok(())
    })
}

/// Every document in a file of its own, in folders, so that the order of paths is the reverse of the
/// order in `in.yaml`; some as JSON.
fn split_up(case: &Case, to: &Path) -> anyhow::Result<()> {
    let input = case.input()?;
    let documents: Vec<&str> = input.split("\n---\n").collect();
    for (index, document) in documents.iter().rev().enumerate() {
        let dir = to.join(format!("{}", index / 3));
        std::fs::create_dir_all(&dir)?;
        let name = format!("{index:03}");
        let as_json = (index % 2 == 1)
            .then(|| serde_saphyr::from_str::<Value>(document).ok())
            .flatten()
            .filter(Value::is_object);
        match as_json {
            Some(value) => std::fs::write(dir.join(name + ".json"), value.to_string())?,
            None => std::fs::write(dir.join(name + ".yaml"), document)?,
        }
    }
    Ok(())
}

/// The rendered document without what names files and lines, as text.
fn without_origins(mut document: Value) -> anyhow::Result<String> {
    for object in list(&mut document, "objects")? {
        object
            .as_object_mut()
            .context("an object is no mapping")?
            .remove("origin");
    }
    let problems = list(&mut document, "problems")?;
    for problem in problems.iter_mut() {
        let text = problem.as_str().context("a problem is no text")?;
        *problem = json!(without_place(text));
    }
    problems.sort_by_key(ToString::to_string);
    Ok(serde_json::to_string_pretty(&document)?)
}

fn list<'a>(document: &'a mut Value, field: &str) -> anyhow::Result<&'a mut Vec<Value>> {
    document
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .with_context(|| format!("there is no list {field}"))
}

/// `file.yaml:12: what is wrong` without its file and line.
fn without_place(problem: &str) -> &str {
    match problem.split_once(": ") {
        Some((place, rest)) if is_place(place) => rest,
        _ => problem,
    }
}

fn is_place(text: &str) -> bool {
    let path = text.rsplit_once(':').map_or(text, |(path, _)| path);
    ["yaml", "json"].iter().any(|extension| {
        Path::new(path)
            .extension()
            .is_some_and(|it| it == *extension)
    })
}
