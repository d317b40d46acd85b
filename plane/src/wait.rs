//! Polls conditions that can't be watched, until a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, Result};

/// The polling interval for conditions on this host.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Polls `check` every `pause` until it returns a value or an error. Returns `None` after `limit`.
pub async fn poll<T, E>(
    limit: Duration,
    pause: Duration,
    mut check: impl AsyncFnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let deadline = Instant::now() + limit;
    loop {
        if let Ok(answer) = timeout_at(deadline, check()).await
            && let Some(value) = answer?
        {
            return Ok(Some(value));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(pause).await;
    }
}

/// Waits until `ready` returns `Ok`, polling every 50 ms for at most `limit`. The error contains `what`, the unmet condition as
/// in "etcd is not ready", and the last reason from `ready`.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut ready: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T> {
    let mut reason = "no answer".to_owned();
    let value = poll(limit, POLL_INTERVAL, async || match ready().await {
        Ok(value) => Ok(Some(value)),
        Err(last) => {
            reason = last;
            Ok::<_, Error>(None)
        }
    });
    match value.await? {
        Some(value) => Ok(value),
        None => Err(Error::TooLate { what: what.to_owned(), limit, reason }),
    }
}

/// Like [`until`], but fails early with the error that `ended` returns.
pub async fn until_or<T>(
    what: &str,
    limit: Duration,
    ready: impl AsyncFnMut() -> Result<T, String>,
    ended: impl Future<Output = Error>,
) -> Result<T> {
    tokio::select! {
        result = until(what, limit, ready) => result,
        error = ended => Err(error),
    }
}
