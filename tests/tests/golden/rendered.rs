//! What `chiton render` prints is what is kept.

use crate::cases::{self, Case};
use anyhow::{bail, ensure};
use std::io::Write as _;
use std::process::Command;

/// Set to write `out.yaml` instead of comparing with it: `make golden`.
const UPDATE: &str = "UPDATE_GOLDEN";

#[test]
fn output_is_as_reviewed() -> anyhow::Result<()> {
    let update = std::env::var_os(UPDATE).is_some();
    cases::each(|case| {
        let input = case.input()?;
        ensure!(
            input.starts_with("# "),
            "in.yaml must say first what the case shows"
        );
        let output = case.render(case.folder()?.path(), &["-o", "yaml"])?;
        if update {
            std::fs::write(case.output_path(), output)?;
            return Ok(());
        }
        compare(case, &output)
    })
}

#[test]
fn there_are_cases() -> anyhow::Result<()> {
    let cases = cases::all()?.len();
    ensure!(cases >= 40, "there are only {cases} cases");
    Ok(())
}

fn compare(case: &Case, output: &str) -> anyhow::Result<()> {
    if case.output().is_ok_and(|golden| golden == output) {
        return Ok(());
    }
    let mut actual = tempfile::NamedTempFile::new()?;
    actual.write_all(output.as_bytes())?;
    let diff = Command::new("diff")
        .args(["--unified", "--new-file", "--label", "out.yaml", "--label"])
        .arg("now")
        .arg(case.output_path())
        .arg(actual.path())
        .output()?;
    bail!(
        "the output is another one; review the difference and run `make golden`\n{}",
        String::from_utf8_lossy(&diff.stdout)
    )
}
