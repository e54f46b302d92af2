//! `chiton serve`.

use super::{Serve, logging, settings};
use crate::runtime;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long work outside the async threads may go on after everything has stopped.
const LAST_WORK: Duration = Duration::from_secs(1);

pub(super) fn run(options: Serve) -> anyhow::Result<ExitCode> {
    logging::start(options.log_format);
    let config = settings(options.config.as_ref(), options.settings)?.complete()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(on_signal(stop.clone()));
        runtime::serve(config, stop).await
    });
    // Without a limit it waits for whatever still compiles or tries a module.
    runtime.shutdown_timeout(LAST_WORK);
    result.map(|()| ExitCode::SUCCESS)
}

/// Cancels the token at the first SIGINT or SIGTERM.
async fn on_signal(stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without a handler the default holds: the process ends at once.
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
}
