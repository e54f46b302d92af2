//! Compiling in another process.
//!
//! Compiling takes a hundred times the memory that the result has, and what an allocator got for it
//! once stays with the process. So the host lets a child compile, which puts the result into the
//! folder of compiled modules and ends; from there the host loads it. The child has limits, so that
//! a component that is made to be hard to compile is refused and harms nobody.

use super::engine::{Engine, ours_alone};
use super::front_door::{self, LoadError};
use nix::sys::resource::{Resource, setrlimit};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};

/// Name of the command that [`run`] is.
pub const COMMAND: &str = "compile-module";
/// Memory of the child, in bytes.
const MEMORY: u64 = 2 << 30;
/// Processor time of the child, in seconds.
const TIME: u64 = 120;
/// Children at a time. Each uses all cores, so one would do; but those that are hard to compile take
/// minutes, and others must not wait for one of them.
const CHILDREN: usize = 3;
/// Exit code of the child that says that the component is at fault.
const REFUSED: u8 = 3;

/// Lets children compile into a folder.
#[derive(Debug)]
pub(super) struct Compiler {
    program: PathBuf,
    folder: PathBuf,
    /// What the results depend on, besides the component.
    compatibility: u64,
    /// Children that may be started now.
    free: Mutex<usize>,
    freed: Condvar,
}

impl Compiler {
    pub(super) fn new(program: PathBuf, folder: PathBuf, engine: &wasmtime::Engine) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self {
            program,
            folder,
            compatibility: hasher.finish(),
            free: Mutex::new(CHILDREN),
            freed: Condvar::new(),
        }
    }

    /// Sees to it that the component is in the folder.
    ///
    /// # Errors
    /// The component cannot be compiled. If no child can be started, there is no error: whoever
    /// finds nothing in the folder compiles.
    pub(super) fn compile(&self, bytes: &[u8]) -> Result<(), LoadError> {
        let mark = format!("{}-{:016x}", super::digest(bytes), self.compatibility);
        let mark = self.folder.join("compiled-apart").join(mark);
        let _turn = self.turn();
        if mark.exists() {
            return Ok(());
        }
        match self.start(bytes) {
            Ok(()) => {
                let made = mark.parent().map_or(Ok(()), fs::create_dir_all);
                if let Err(error) = made.and_then(|()| fs::write(&mark, "")) {
                    tracing::debug!(%error, "a module will be compiled again after a restart");
                }
                Ok(())
            }
            Err(Fault::Refused(reason)) => Err(LoadError::Damaged(reason)),
            Err(Fault::Ended(how)) => Err(LoadError::TooHard(how)),
            Err(Fault::Start(error)) => {
                tracing::warn!(%error, "no process to compile a module in; this one compiles it");
                Ok(())
            }
        }
    }

    /// Waits until a child may be started.
    fn turn(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }

    fn start(&self, bytes: &[u8]) -> Result<(), Fault> {
        let child = std::process::Command::new(&self.program)
            .arg(COMMAND)
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = feed(child, bytes)?;
        match output.status.code() {
            Some(0) => Ok(()),
            Some(code) if code == i32::from(REFUSED) => Err(Fault::Refused(
                String::from_utf8_lossy(&output.stdout).into_owned(),
            )),
            _ => Err(Fault::Ended(output.status.to_string())),
        }
    }
}

/// The right to start a child.
struct Turn<'a>(&'a Compiler);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Gives the child its input and waits for it.
fn feed(mut child: Child, bytes: &[u8]) -> std::io::Result<std::process::Output> {
    if let Some(mut input) = child.stdin.take() {
        // A child that ends before it has read all says why by its exit code.
        let _ = input.write_all(bytes);
    }
    child.wait_with_output()
}

/// Why a child has compiled nothing.
enum Fault {
    /// The component cannot be compiled.
    Refused(String),
    /// It did not end by itself, or not as it should.
    Ended(String),
    /// There is no child.
    Start(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Start(error)
    }
}

/// The child: compiles the component on its standard input into a folder.
///
/// # Errors
/// It has no limits, or there is no engine.
pub fn run(folder: &Path) -> anyhow::Result<ExitCode> {
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
    setrlimit(Resource::RLIMIT_CPU, TIME, TIME)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let engine = Engine::new(Some(folder))?;
    match front_door::compile(&engine, &bytes) {
        Err(LoadError::Damaged(reason)) => {
            print!("{reason}");
            Ok(ExitCode::from(REFUSED))
        }
        // All else is said by the host, which looks at the component itself.
        Ok(_) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Fills a folder of compiled modules that does not exist yet from another one, which came with the
/// program. Such a folder has to belong to this user or to root, and to be theirs to write alone.
///
/// # Errors
/// The folder cannot be used.
pub(super) fn seed(folder: &Path, from: &Path) -> Result<(), String> {
    if folder.exists() || !from.is_dir() {
        return Ok(());
    }
    ours_alone(from, true)?;
    copy(from, folder).map_err(|error| error.to_string())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(dir: &Path, text: &str) -> PathBuf {
        let path = dir.join("compiler");
        fs::write(
            &path,
            format!("#!/bin/sh\necho >> {}/ran\n{text}\n", dir.display()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn compiler(dir: &Path, text: &str) -> Compiler {
        let engine = crate::sandbox::testing::engine();
        Compiler::new(script(dir, text), dir.join("compiled"), engine.wasm())
    }

    #[test]
    fn a_component_is_compiled_once() {
        let dir = tempfile::tempdir().unwrap();
        let compiler = compiler(dir.path(), "cat > /dev/null");
        for bytes in [b"one", b"one", b"two"] {
            compiler.compile(bytes).unwrap();
        }
        let ran = fs::read_to_string(dir.path().join("ran")).unwrap();
        assert_eq!(ran.lines().count(), 2);
    }

    #[test]
    fn one_that_is_hard_to_compile_delays_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let waits = format!("if grep -q hard; then cat {}; fi", pipe.display());
        let compiler = compiler(dir.path(), &waits);
        std::thread::scope(|scope| {
            let hard = scope.spawn(|| compiler.compile(b"hard\n"));
            compiler.compile(b"easy\n").unwrap();
            // Waits until the child reads.
            fs::write(&pipe, "").unwrap();
            hard.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_child_that_refuses_dies_or_is_not_there_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let refusing = compiler(dir.path(), "printf 'bad opcode'; exit 3");
        let error = refusing.compile(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error, LoadError::Damaged("bad opcode".into()));
        let dying = compiler(dir.path(), "kill -9 $$");
        let error = dying.compile(b"x").unwrap_err();
        assert!(
            matches!(&error, LoadError::TooHard(how) if how.contains("signal: 9")),
            "{error}"
        );
        fs::remove_file(dir.path().join("compiler")).unwrap();
        dying.compile(b"x").unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_seeds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("modules")).unwrap();
        fs::write(from.join("modules/a"), "a").unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o777)).unwrap();
        seed(&to, &from).unwrap_err();
        assert!(!to.exists());
        fs::set_permissions(&from, fs::Permissions::from_mode(0o755)).unwrap();
        seed(&to, &from).unwrap();
        assert_eq!(fs::read(to.join("modules/a")).unwrap(), b"a");
        fs::write(from.join("modules/a"), "b").unwrap();
        seed(&to, &from).unwrap();
        assert_eq!(
            fs::read(to.join("modules/a")).unwrap(),
            b"a",
            "it was there"
        );
    }
}
