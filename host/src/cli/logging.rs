//! The log, on standard error.

use super::LogFormat;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Starts the log. `RUST_LOG` chooses what is in it; `info` if it is unset or not valid.
pub(super) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
