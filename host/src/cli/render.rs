//! `chiton render` and `chiton validate`.

use super::problems::problems;
use super::{Format, Offline as OfflineOptions, Render, settings};
use crate::config::Config;
use crate::runtime::offline::{self, Offline};
use crate::synchronizer::envoy;
use chiton_xds::Change;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

pub(super) fn run(options: Render) -> anyhow::Result<ExitCode> {
    let offline = offline::run(&config(options.offline)?)?;
    let document = document(&offline)?;
    match options.output {
        Format::Json => println!("{}", serde_json::to_string_pretty(&document)?),
        Format::Yaml => print!("{}", serde_saphyr::to_string(&document)?),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn validate(options: OfflineOptions) -> anyhow::Result<ExitCode> {
    let offline = offline::run(&config(options)?)?;
    let problems = problems(&offline);
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{} problem{}",
        problems.len(),
        if problems.len() == 1 { "" } else { "s" }
    );
    Ok(ExitCode::FAILURE)
}

/// The configuration of a command that needs no data folder.
fn config(options: OfflineOptions) -> anyhow::Result<Config> {
    let mut settings = settings(options.config.as_ref(), options.settings)?;
    settings.data_dir.get_or_insert_default();
    settings.complete()
}

/// Resources by fleet, type and name, and all that is said of objects; sorted, without times.
fn document(offline: &Offline) -> anyhow::Result<Value> {
    let mut fleets = Map::new();
    for (fleet, changes) in &offline.delta.resources {
        let mut types: Map<String, Value> = Map::new();
        for change in changes {
            let Change::Put(resource) = change else {
                continue;
            };
            let kind = resource.name.kind.short_name();
            let names = types.entry(kind).or_insert_with(|| json!({}));
            if let Value::Object(names) = names {
                names.insert(resource.name.name.clone(), envoy::print(resource)?);
            }
        }
        fleets.insert(fleet.clone(), Value::Object(types));
    }
    Ok(json!({
        "resources": fleets,
        "objects": offline.objects(),
        "problems": problems(offline),
    }))
}
