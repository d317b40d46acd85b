//! Deadlines for boot steps that wait for other components.

use std::future::Future;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use tokio::time::Instant;

use super::failure::Failure;

/// The interval between attempts. It is short, because all components run on one host.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The time at which a boot gives up.
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

/// Retries until the attempt succeeds or returns a final failure. After the deadline, returns the last failure.
pub(super) async fn retry_until<T, F, Attempt>(deadline: Deadline, attempt: F) -> Result<T, Failure>
where
    F: FnMut() -> Attempt,
    Attempt: Future<Output = Result<T, Failure>>,
{
    let pauses = ConstantBuilder::default().with_delay(POLL_INTERVAL).without_max_times();
    let goes_on = |failure: &Failure| !failure.is_final() && !deadline.is_over();
    attempt.retry(pauses).sleep(tokio::time::sleep).when(goes_on).await
}
