//! Waits with a deadline.

use std::time::Duration;

/// The interval at which [`poll`] calls its function.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The error if a deadline expires.
#[derive(Debug, thiserror::Error)]
#[error("not within {deadline:?}: {what}")]
pub struct TooLate {
    what: String,
    deadline: Duration,
}

impl TooLate {
    fn new(what: &str, deadline: Duration) -> Self {
        Self { what: what.to_owned(), deadline }
    }
}

/// Waits for a future until the deadline.
pub async fn in_time<T>(
    what: &str,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> Result<T, TooLate> {
    tokio::time::timeout(deadline, future).await.map_err(|_| TooLate::new(what, deadline))
}

/// Calls `look` a few times a second, until it returns a value or the deadline expires.
///
/// A call that has begun is always awaited.
pub async fn poll<T, F>(what: &str, deadline: Duration, mut look: impl FnMut() -> F) -> Result<T, TooLate>
where
    F: Future<Output = Option<T>>,
{
    let started = tokio::time::Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        if let Some(found) = look().await {
            return Ok(found);
        }
        if started.elapsed() >= deadline {
            return Err(TooLate::new(what, deadline));
        }
    }
}

/// Waits up to a minute for a future, and panics after that.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    in_time(what, Duration::from_mins(1), future).await.unwrap_or_else(|late| panic!("{late}"))
}
