//! The one loop that repeats calls, whichever API they belong to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::gate::Gate;
use crate::session::SessionHandle;
use crate::{Error, Kind, Result};

/// Attempts of a call that may be repeated.
const ATTEMPTS: usize = 5;
/// Pauses double from 0.2 s to 1.6 s, each somewhere between half of it and all of it.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_millis(800))
    .without_max_times()
    .with_jitter();

/// How long a call may take and whether it may be repeated.
#[derive(Clone, Copy)]
pub(crate) struct RetryPolicy {
    pub timeout: Duration,
    /// Whether doing it twice is as good as doing it once.
    pub repeatable: bool,
}

/// One call, as the loop sees it.
pub(crate) trait Attempt {
    /// What a call that succeeds is answered with.
    type Answer;

    /// Whether it may be repeated when nobody knows what became of it.
    fn repeatable(&self) -> bool;

    /// Resolves to the session for the next attempt; logs in where there is none.
    fn open_session(&self) -> impl Future<Output = Result<SessionHandle>> + Send;

    /// Sends the call once.
    fn send(&self, session: &SessionHandle) -> impl Future<Output = Result<Self::Answer>> + Send;

    /// Replaces a session that vCenter does not know.
    fn renew_session(&self, session: SessionHandle) -> impl Future<Output = Result<()>> + Send;
}

/// Waits for a place at the gate, calls, logs in again if the session is gone, and repeats what may be repeated.
pub(crate) async fn call_until_done<A: Attempt>(gate: &Arc<Gate>, call: &A) -> Result<A::Answer> {
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

/// How long to wait after so many failures in a row.
pub(crate) fn pause_after(failures: usize) -> Duration {
    PAUSES.build().nth(failures.clamp(1, ATTEMPTS) - 1).unwrap_or_default()
}

/// Whether a call that failed so may be sent again.
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
