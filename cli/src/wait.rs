//! Waiting for what cannot be watched.

use std::time::Duration;

use anyhow::{Context, Result};

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until `is_so` holds, asking every 100 ms; an error of it ends the wait.
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
