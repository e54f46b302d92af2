//! What went wrong in the engine, as a sentence for a module's author.

use super::{Failure, Limits};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

/// The failure that an error of the engine stands for.
pub(super) fn failure(error: &wasmtime::Error, limits: &Limits) -> Failure {
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return Failure::Host("too many calls of modules at once".into());
    }
    let trace = backtrace(error);
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => Failure::Host(format!(
            "it was not done when its {} ms had passed{trace}",
            limits.time.as_millis()
        )),
        Some(Trap::UnreachableCodeReached) => Failure::Module(format!(
            "it trapped: it reached `unreachable`, as a panic does{trace}"
        )),
        Some(trap) => Failure::Module(format!("it trapped: {}{trace}", plain(*trap))),
        None if is_too_much_data(error) => Failure::Module(format!(
            "it handed over more than its output limit of {} bytes",
            limits.output
        )),
        None => Failure::Module(format!("it broke the contract: {}{trace}", root(error))),
    }
}

fn plain(trap: Trap) -> String {
    let text = trap.to_string();
    text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned()
}

/// The engine's limit on what one crossing may carry; it has no type of its own.
fn is_too_much_data(error: &wasmtime::Error) -> bool {
    root(error).contains("fuel allocated for hostcalls has been exhausted")
}

/// The innermost cause: what is around it says where in the host it was met.
pub(super) fn root(error: &wasmtime::Error) -> String {
    error.root_cause().to_string()
}

/// ` (in a < b < c)`, innermost first, or nothing.
fn backtrace(error: &wasmtime::Error) -> String {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else {
        return String::new();
    };
    let frames: Vec<String> = trace
        .frames()
        .iter()
        .map(|frame| {
            frame.func_name().map_or_else(
                || format!("function {}", frame.func_index()),
                ToOwned::to_owned,
            )
        })
        .collect();
    if frames.is_empty() {
        String::new()
    } else {
        format!(" (in {})", frames.join(" < "))
    }
}
