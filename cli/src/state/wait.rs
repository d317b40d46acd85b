//! Polls conditions that can't be watched.

use std::time::Duration;

use anyhow::{Context, Result};

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Polls `is_so` every 100 ms until it returns true or an error. After the timeout, returns an error that names `what`.
pub(crate) async fn until(
    what: &str,
    limit: Duration,
    mut is_so: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let held = plane::wait::poll(limit, POLL_INTERVAL, async || {
        Ok::<_, anyhow::Error>(is_so().await?.then_some(()))
    });
    held.await?.with_context(|| format!("{what}: timed out after {limit:?}"))
}
