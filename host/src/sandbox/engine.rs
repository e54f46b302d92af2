//! The WebAssembly engine that all modules share.
//!
//! What it is set up for is a fresh instance for each call: instances come from a pool of reserved
//! slots, and a slot that was used is reset by copying back the few pages that were touched. Every
//! source of difference between two runs is off: NaNs are canonical, relaxed SIMD is deterministic,
//! there are no threads.

use super::bindings;
use super::call::Call;
use super::compiler::{self, Compiler};
use super::front_door::LoadError;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::Linker;
use wasmtime::{
    Cache, CacheConfig, Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig,
};

/// How often running guests look whether their deadline has passed.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The most linear memory that a module's limits may allow, in bytes: the size of a pool slot.
pub const MAX_MEMORY: usize = 256 << 20;

/// Calls that may run at once. More than threads that call; address space, not memory, is what
/// each costs.
const SLOTS: u32 = 128;

/// Memory and tables that stay resident in an unused slot, so that the next call in it finds its
/// pages there.
const KEEP_RESIDENT: usize = 512 << 10;

/// Core instances in one component: its own modules and the adapters of the toolchain around them.
const CORE_INSTANCES: u32 = 16;

/// Native stack that a guest may use. Threads that call modules have 2 MiB.
const STACK: usize = 512 << 10;

/// Frames shown in the backtrace of a trap.
pub(super) const BACKTRACE_FRAMES: usize = 6;

/// Folder beside the program with what its built-in reconcilers compile to.
pub const SEED: &str = "chiton-compiled";

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The folder for compiled modules cannot be used.
    #[error("compiled modules cannot be kept in {path}: {reason}", path = path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The machine cannot run compiled WebAssembly.
    #[error("the WebAssembly engine does not start: {0}")]
    Start(wasmtime::Error),
}

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    wasm: wasmtime::Engine,
    linker: Arc<Linker<Call>>,
    compiler: Option<Arc<Compiler>>,
}

impl Engine {
    /// An engine. Compiled modules are kept in `cache`, by content and by version of the engine; the
    /// folder is made, for this user alone: who can write there can run any code in this process.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(cache: Option<&Path>) -> Result<Self, EngineError> {
        let cache = cache.map(open_cache).transpose()?;
        let wasm = match wasmtime::Engine::new(&config(cache.clone(), true)) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(%error, "no pool of instances (is the address space limited?): calls of modules will be slower");
                wasmtime::Engine::new(&config(cache, false)).map_err(EngineError::Start)?
            }
        };
        let mut linker = Linker::new(&wasm);
        bindings::add_to_linker(&mut linker).map_err(EngineError::Start)?;
        tick(&wasm).map_err(|error| EngineError::Start(error.into()))?;
        Ok(Self {
            wasm,
            linker: Arc::new(linker),
            compiler: None,
        })
    }

    /// An engine that keeps compiled modules in `cache` and lets `program`, which is this one, compile
    /// them in processes of its own. A `cache` that does not exist yet is filled from
    /// [`SEED`] beside the program, if that is there.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn compiling_apart(cache: &Path, program: PathBuf) -> Result<Self, EngineError> {
        let beside = std::env::current_exe().ok();
        if let Some(from) = beside.and_then(|path| Some(path.parent()?.join(SEED)))
            && let Err(reason) = compiler::seed(cache, &from)
        {
            tracing::warn!(folder = %from.display(), reason, "compiled modules that came with the program cannot be used");
        }
        let mut engine = Self::new(Some(cache))?;
        let compiler = Compiler::new(program, cache.to_owned(), &engine.wasm);
        engine.compiler = Some(Arc::new(compiler));
        Ok(engine)
    }

    /// Has the component compiled by another process, if this engine does that.
    pub(super) fn compile_apart(&self, bytes: &[u8]) -> Result<(), LoadError> {
        match &self.compiler {
            Some(compiler) => compiler.compile(bytes),
            None => Ok(()),
        }
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.wasm
    }

    pub(super) fn linker(&self) -> &Linker<Call> {
        &self.linker
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

fn config(cache: Option<Cache>, pooled: bool) -> Config {
    let mut config = Config::new();
    config
        .cache(cache)
        .concurrency_support(false)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES));
    if pooled {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    }
    config
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(SLOTS)
        .total_core_instances(SLOTS * 4)
        .max_core_instances_per_component(CORE_INSTANCES)
        .total_memories(SLOTS)
        .max_memory_size(MAX_MEMORY)
        .total_tables(SLOTS * 2)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    pool
}

fn open_cache(path: &Path) -> Result<Cache, EngineError> {
    let refuse = |reason: String| EngineError::Cache {
        path: path.to_owned(),
        reason,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| refuse(error.to_string()))?;
    ours_alone(path, false).map_err(refuse)?;
    let path = path
        .canonicalize()
        .map_err(|error| refuse(error.to_string()))?;
    let mut config = CacheConfig::new();
    config
        .with_directory(path)
        .with_files_total_size_soft_limit(256 << 20);
    Cache::new(config).map_err(|error| refuse(error.to_string()))
}

/// What is compiled there runs with the host's rights: nobody else may write it, but perhaps root.
pub(super) fn ours_alone(path: &Path, or_of_root: bool) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    let owner = metadata.uid();
    if owner != nix::unistd::geteuid().as_raw() && !(or_of_root && owner == 0) {
        return Err("the folder belongs to another user".into());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others may write there: take that right away (chmod 700)".into());
    }
    Ok(())
}

/// Advances the engine's epoch until the engine is gone.
fn tick(engine: &wasmtime::Engine) -> std::io::Result<()> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("module-clock".into())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })?;
    Ok(())
}
