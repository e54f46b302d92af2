//! The cases, and `chiton` run on them.

use anyhow::{Context as _, bail, ensure};
use chiton_tests::paths;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// Cases that are rendered without `--bind-address`, because they are about the addresses that Gateways
/// ask for. All others are rendered as `make run` serves: on 127.0.0.1.
pub const WITH_OWN_ADDRESSES: [&str; 1] = ["gateway-addresses"];

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of its folder.
    pub name: String,
    dir: PathBuf,
}

impl Case {
    /// The manifests.
    pub fn input(&self) -> anyhow::Result<String> {
        read(&self.dir.join("in.yaml"))
    }

    /// Where the rendered output is kept.
    pub fn output_path(&self) -> PathBuf {
        self.dir.join("out.yaml")
    }

    /// The rendered output as it is kept.
    pub fn output(&self) -> anyhow::Result<String> {
        read(&self.output_path())
    }

    /// Flags of `chiton` for the case, beside the folder.
    pub fn flags(&self) -> &'static [&'static str] {
        if WITH_OWN_ADDRESSES.contains(&self.name.as_str()) {
            &[]
        } else {
            &["--bind-address", "127.0.0.1"]
        }
    }

    /// `chiton render` of the manifests in `dir`, with the case's flags and these.
    pub fn render(&self, dir: &Path, more: &[&str]) -> anyhow::Result<String> {
        let flags = [self.flags(), more].concat();
        let output = chiton("render", dir, &flags)?;
        ensure!(
            output.status.success(),
            "render of {} ended with {}: {}",
            self.name,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A folder with `in.yaml` alone.
    pub fn folder(&self) -> anyhow::Result<tempfile::TempDir> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("in.yaml"), self.input()?)?;
        Ok(dir)
    }
}

/// All cases, sorted by name.
pub fn all() -> anyhow::Result<Vec<Case>> {
    let root = paths::workspace().join("tests/golden");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&root).with_context(|| root.display().to_string())? {
        let dir = entry?.path();
        let name = dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        cases.push(Case { name, dir });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// One case by name.
pub fn named(name: &str) -> anyhow::Result<Case> {
    all()?
        .into_iter()
        .find(|case| case.name == name)
        .with_context(|| format!("there is no case {name}"))
}

/// Runs a command of `chiton` on a folder.
pub fn chiton(command: &str, manifests: &Path, flags: &[&str]) -> anyhow::Result<Output> {
    Ok(Command::new(paths::binary("chiton")?)
        .arg(command)
        .arg("--manifests")
        .arg(manifests)
        .args(flags)
        .output()?)
}

/// Does something for each case, some at once. Fails with all that was wrong.
pub fn each(check: impl Fn(&Case) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    let cases = all()?;
    let queue = Mutex::new(cases.iter());
    let wrong = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = queue.lock().ok().and_then(|mut cases| cases.next()) {
                    let Err(error) = check(case) else { continue };
                    if let Ok(mut wrong) = wrong.lock() {
                        wrong.push(format!("{}: {error:#}", case.name));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap_or_default();
    wrong.sort();
    if !wrong.is_empty() {
        bail!("{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
