//! How long a boot waits for what others have to do first.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;

/// Between two looks. Short, since everything is on one host.
const PAUSE: Duration = Duration::from_millis(100);

/// The moment at which a boot gives up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(boot_timeout: Duration) -> Self {
        Self(Instant::now() + boot_timeout)
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Tries until it succeeds or fails for good; after the deadline the last failure is the answer.
pub(super) async fn retried<T, F, Attempt>(deadline: Deadline, mut attempt: F) -> Result<T, Failure>
where
    F: FnMut() -> Attempt,
    Attempt: Future<Output = Result<T, Failure>>,
{
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(failure) if failure.is_final() || deadline.is_over() => return Err(failure),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
