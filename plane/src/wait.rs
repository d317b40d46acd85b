//! Waiting for what cannot be watched, by asking again and again until a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, Result};

/// Between two looks at something on this host.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Asks `check` until it gives a value or an error; `None` after `limit`.
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

/// Waits until `ready` gives a value, asking every 50 ms; the last reason why it is not ready is part of the error.
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

/// As [`until`], but fails early with the error that `ended` gives.
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
