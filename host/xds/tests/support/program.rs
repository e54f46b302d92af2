//! The Go programs of `tests/xds`.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::support::{PATIENCE, soon};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Where a program is.
pub fn path(name: &str) -> PathBuf {
    let folder = std::env::var_os("CHITON_XDS_CLIENTS").unwrap_or_default();
    let path = Path::new(&folder).join(name);
    assert!(
        path.is_file(),
        "this test needs the Go program {name}: set CHITON_XDS_CLIENTS to the folder that \
         `tests/tools/xds-clients.sh ~/.cache/chiton` builds and prints"
    );
    path
}

/// A running program that reads and writes lines. It is killed when this is dropped.
pub struct Program {
    name: String,
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub fn start(name: &str, arguments: &[&str], environment: &[(&str, String)]) -> Self {
        let mut process = Command::new(path(name))
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        Self {
            name: name.to_owned(),
            input: process.stdin.take().expect("a pipe"),
            output: BufReader::new(process.stdout.take().expect("a pipe")).lines(),
            _process: process,
        }
    }

    /// The next line that it prints.
    pub async fn line(&mut self) -> String {
        soon("a line", self.next()).await
    }

    /// Lines up to an expected one; panics with them if it does not come.
    pub async fn lines_until(&mut self, expected: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != expected) {
            let next = tokio::time::timeout(PATIENCE, self.next()).await;
            seen.push(next.unwrap_or_else(|_| panic!("not {expected:?}, but {seen:#?}")));
        }
        seen
    }

    async fn next(&mut self) -> String {
        let line = self.output.next_line().await.expect("UTF-8");
        line.unwrap_or_else(|| panic!("{} ended", self.name))
    }

    pub async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        let result = self.input.write_all(line.as_bytes()).await;
        result.expect("the program reads");
    }
}
