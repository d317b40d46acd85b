//! Waiting for something, but not for ever.

use std::time::Duration;

/// How often [`poll`] looks.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// What was waited for did not come in time.
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

/// Looks a few times a second, until `look` finds something or the deadline is over.
///
/// A look that has begun is awaited to its end.
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

/// Waits a minute for a future; then the test fails.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    in_time(what, Duration::from_mins(1), future).await.unwrap_or_else(|late| panic!("{late}"))
}
