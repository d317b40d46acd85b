//! The retry loop for calls to all vCenter APIs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::gate::CallGate;
use crate::session::SessionHandle;
use crate::{Error, Kind, Result};

/// The maximum number of attempts for a call.
const ATTEMPTS: usize = 5;
/// The pauses between attempts. They double from 0.1 s to 0.8 s, and a random jitter can almost double each of them.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_millis(800))
    .without_max_times()
    .with_jitter();

/// A call's timeout and repeatability.
#[derive(Clone, Copy)]
pub(crate) struct RetryPolicy {
    pub timeout: Duration,
    /// True if the call is idempotent.
    pub repeatable: bool,
}

/// A call that the retry loop can send.
pub(crate) trait RetryableCall {
    /// The result of a successful call.
    type Answer;

    /// Returns true if the call may be repeated although its outcome is unknown.
    fn repeatable(&self) -> bool;

    /// Returns the session for the next attempt. Logs in if there is none.
    fn open_session(&self) -> impl Future<Output = Result<SessionHandle>> + Send;

    /// Sends the call once.
    fn send(&self, session: &SessionHandle) -> impl Future<Output = Result<Self::Answer>> + Send;

    /// Replaces a session that vCenter doesn't know any more.
    fn renew_session(&self, session: SessionHandle) -> impl Future<Output = Result<()>> + Send;
}

/// Sends a call: waits at the gate, renews a lost session once, and retries the call if that is safe.
pub(crate) async fn call_until_done<A: RetryableCall>(gate: &Arc<CallGate>, call: &A) -> Result<A::Answer> {
    let mut renewed = false;
    let mut failures = 0;
    loop {
        let session = call.open_session().await?;
        let permit = gate.enter().await;
        let error = match call.send(&session).await {
            Ok(answer) => {
                permit.succeeded();
                return Ok(answer);
            }
            Err(error) => error,
        };
        if *error.kind() == Kind::Overloaded {
            permit.overloaded(Instant::now());
        } else {
            drop(permit);
        }
        if *error.kind() == Kind::NotAuthenticated && !renewed {
            renewed = true;
            call.renew_session(session).await?;
            continue;
        }
        failures += 1;
        if failures >= ATTEMPTS || !may_repeat(&error, call.repeatable()) {
            return Err(error);
        }
        let pause = pause_after(failures);
        tracing::debug!(%error, ?pause, "repeating the call");
        tokio::time::sleep(pause).await;
    }
}

/// Returns the pause before the next attempt after `failures` consecutive failures.
pub(crate) fn pause_after(failures: usize) -> Duration {
    PAUSES.build().nth(failures.clamp(1, ATTEMPTS) - 1).unwrap_or_default()
}

/// Returns true if a call that failed with `error` may be sent again: the call didn't reach vCenter, or it is
/// `repeatable` and vCenter was overloaded or the response was lost.
pub(crate) fn may_repeat(error: &Error, repeatable: bool) -> bool {
    match error.kind() {
        Kind::Unreachable { .. } => true,
        Kind::Overloaded | Kind::AnswerLost { .. } => repeatable,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        for (failures, longest) in [200, 200, 400, 800, 1600, 1600, 1600].into_iter().enumerate() {
            let pause = pause_after(failures);
            let bounds = Duration::from_millis(longest / 2)..=Duration::from_millis(longest);
            assert!(bounds.contains(&pause), "{pause:?} after {failures}");
        }
    }
}
