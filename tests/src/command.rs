//! Commands that end by themselves.

use crate::{paths, wait};
use anyhow::Context as _;
use std::process::Stdio;
use tokio::process::Command;

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `chiton` to its end.
pub async fn chiton(arguments: &[&str]) -> anyhow::Result<Ended> {
    chiton_in(arguments, &[]).await
}

/// As [`chiton`], with these environment variables; an empty value removes one.
pub async fn chiton_in(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Ended> {
    let mut command = Command::new(paths::binary("chiton")?);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for (name, value) in environment {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    let what = format!("chiton {}", arguments.join(" "));
    let output = wait::at_most(&what, command.output())
        .await?
        .with_context(|| what.clone())?;
    Ok(Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
