//! The long poll and its recovery after errors.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::build::build;
use super::oversize::Oversize;
use super::pace::StreamRateLimiter;
use super::shared::{Built, Shared};
use super::update::UpdateSet;
use crate::retry::pause_after;
use crate::{Error, Kind, Object, Result};

/// The maximum number of consecutive transient poll failures before the views are rebuilt.
const LOST: usize = 20;

/// Builds the views and follows the stream, and starts over whenever either fails. Returns when the client is closed.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut failures = 0;
    let mut oversize = Oversize::new();
    loop {
        shared.begin();
        oversize.relax();
        let epoch = *shared.client.epochs().borrow();
        let error = match build(&shared).await {
            Ok(built) => {
                let (error, worked) = watch(&shared, built, &mut oversize).await;
                if worked {
                    failures = 0;
                }
                error
            }
            Err(error) => {
                // If there were no other calls, this call is the first to notice that the session has ended.
                if *error.kind() == Kind::NotAuthenticated {
                    drop(shared.client.renew_session(epoch).await);
                }
                error
            }
        };
        shared.set_complete(false);
        if shared.client.closed() {
            return shared.close();
        }
        tracing::debug!(%error, "rebuilding the inventory");
        let lost_session = *error.kind() == Kind::NotAuthenticated;
        shared.state.write().trouble = Some(error);
        failures += 1;
        if failures > 1 || !lost_session {
            tokio::time::sleep(pause_after(failures)).await;
        }
    }
}

/// Follows the stream. Returns the error that ended the stream, and true if the cache became complete before the error.
async fn watch(shared: &Shared, built: Built, oversize: &mut Oversize) -> (Error, bool) {
    let built = Arc::new(built);
    {
        let mut tasks = shared.tasks.lock();
        tasks.list_is_new();
    }
    shared.built.send_replace(Some(built.clone()));
    shared.tasks_due.notify_one();
    let mut complete = false;
    let mut epochs = shared.client.epochs();
    let epoch = built.live.epoch;
    let error = tokio::select! {
        error = follow(shared, &built, oversize, &mut complete) => error,
        _ = epochs.wait_for(|now| *now != epoch) => Error::new("WaitForUpdatesEx", Kind::NotAuthenticated),
        () = shared.broken.notified() => Error::new("WaitForUpdatesEx", Kind::Canceled),
    };
    shared.built.send_replace(None);
    if *error.kind() == Kind::NotAuthenticated {
        // Logs in unless another caller already has. If the login fails, building the views fails, too.
        drop(shared.client.renew_session(epoch).await);
    }
    (error, complete)
}

async fn follow(shared: &Shared, built: &Built, oversize: &mut Oversize, complete: &mut bool) -> Error {
    let mut pace = StreamRateLimiter::new(shared.options.burst, shared.options.pace);
    let mut version = String::new();
    let mut truncated = false;
    let mut failures = 0;
    loop {
        if !truncated {
            pace.turn().await;
        }
        // The first polls must not wait for changes: if the roots don't contain any VMs, the response is empty.
        let wait = if shared.status.borrow().complete {
            shared.client.config().poll_timeout
        } else {
            Duration::ZERO
        };
        let polled = match poll(shared, built, &version, oversize.page(), wait).await {
            Ok(Err(_beginning)) if oversize.shrink() => {
                tracing::warn!(
                    objects = oversize.page(),
                    "vCenter's answer is too large; reading the inventory in smaller parts"
                );
                truncated = false;
                restart(shared, oversize, &mut version);
                continue;
            }
            Ok(polled) => oversize.read(shared, polled).await,
            Err(error) => Err(error),
        };
        match polled {
            Ok(set) => {
                failures = 0;
                truncated = set.as_ref().is_some_and(|set| set.truncated);
                if let Some(set) = set {
                    version.clone_from(&set.version);
                    shared.apply(set);
                }
                if !truncated && !shared.status.borrow().complete {
                    shared.finish();
                    *complete = true;
                }
                shared.state.write().trouble = None;
            }
            Err(error) if is_stale(&error) => {
                truncated = false;
                restart(shared, oversize, &mut version);
            }
            // A lost response doesn't lose updates: vCenter sends them again for the same version.
            Err(error) if is_passing(&error) && !is_hung(&error, wait) && failures < LOST => {
                failures += 1;
                truncated = false;
                tracing::debug!(%error, "repeating the poll");
                shared.state.write().trouble = Some(error);
                tokio::time::sleep(pause_after(failures)).await;
            }
            Err(error) => return error,
        }
    }
}

/// Restarts from the empty version, so that vCenter resends everything.
fn restart(shared: &Shared, oversize: &mut Oversize, version: &mut String) {
    version.clear();
    oversize.begin();
    shared.begin();
}

/// Polls for at most `page` objects. vCenter may hold the poll for `wait`. If the response is too large, the inner
/// error contains the beginning of the response.
async fn poll(
    shared: &Shared,
    built: &Built,
    version: &str,
    page: u32,
    wait: Duration,
) -> Result<Result<Option<UpdateSet>, Bytes>> {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
    let options = Object::new("WaitOptions").with("maxWaitSeconds", seconds).with("maxObjectUpdates", page);
    let args = Object::new("WaitForUpdatesExRequestType").with("version", version).with("options", options);
    let timeout = wait + shared.client.config().poll_grace;
    let answer =
        shared.client.poll_in(&built.live, &built.collector, "WaitForUpdatesEx", &args, timeout).await?;
    Ok(answer.map(UpdateSet::read))
}

/// Returns true if the collector doesn't know the version, so that the poll must restart from the empty version.
fn is_stale(error: &Error) -> bool {
    error.fault().is_some_and(|fault| fault.type_name == "InvalidCollectorVersion")
}

/// Returns true if a long poll timed out without a response. The cache may lack everything that changed meanwhile.
fn is_hung(error: &Error, wait: Duration) -> bool {
    *error.kind() == Kind::TimedOut && !wait.is_zero()
}

/// Returns true for transient errors, after which the connection recovers by itself.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::Unreachable { .. }
            | Kind::Overloaded
            | Kind::AnswerLost { .. }
            | Kind::TimedOut
            | Kind::Tls { .. }
    )
}
