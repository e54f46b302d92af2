//! Waiting for a condition instead of a time.

use anyhow::bail;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// How long anything may take on a busy machine. A test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Asks until the answer is `Ok`; after [`PATIENCE`] fails with the last `Err`, which says what is not
/// as it should be.
pub async fn until<T, F, E>(what: &str, ask: F) -> anyhow::Result<T>
where
    F: AsyncFnMut() -> Result<T, E>,
    E: std::fmt::Display,
{
    until_within(PATIENCE, what, ask).await
}

/// As [`until`], with another patience.
pub async fn until_within<T, F, E>(patience: Duration, what: &str, mut ask: F) -> anyhow::Result<T>
where
    F: AsyncFnMut() -> Result<T, E>,
    E: std::fmt::Display,
{
    let end = Instant::now() + patience;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if Instant::now() > end => {
                bail!("{what}: still not so after {patience:?}: {error}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Runs a future to its end, at most for [`PATIENCE`].
pub async fn at_most<T>(what: &str, future: impl Future<Output = T>) -> anyhow::Result<T> {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => Ok(value),
        Err(_) => bail!("{what}: took longer than {PATIENCE:?}"),
    }
}
