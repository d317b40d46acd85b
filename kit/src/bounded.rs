//! Computes on untrusted input: within a byte budget and a time limit, on a blocking thread, and
//! one computation per namespace at a time.
//!
//! Reconciles and webhooks share a few worker threads. Code that parses, renders, hashes or unpacks
//! untrusted input must not run on these threads: [`compute`] runs it on a blocking thread. A [`Budget`]
//! counts every byte that is read, copied or created, so that a small input can't become a large value.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub use bounds::{Budget, Exceeded};
use bounds::{Lane, Turn};
use tokio::time::timeout;

/// The maximum number of concurrent computations in the process.
const PLACES: usize = 4;
/// The maximum number of concurrent computations per namespace.
const PLACES_OF_A_NAMESPACE: usize = 1;

static LANE: LazyLock<Lane> = LazyLock::new(|| Lane::new(PLACES, PLACES_OF_A_NAMESPACE));

/// The limits for one computation.
#[derive(Clone, Copy, Debug)]
pub struct ComputationLimits {
    /// The maximum number of bytes that the computation may read, copy and create in total.
    pub bytes: usize,
    /// The maximum run time, not counting the wait for other computations.
    pub time: Duration,
}

/// Runs `work` on a blocking thread, within `limits`, on behalf of `namespace`. Computations for one namespace run one after
/// another. They wait for other namespaces only while the process runs the maximum number of computations.
///
/// `work` spends its [`Budget`] before it creates values. When its time is up, this function returns [`Exceeded::Time`]
/// at once, and the next `spend` fails. Work that doesn't check its budget counts as running until it ends.
///
/// # Errors
/// [`Exceeded::Time`], and any error that `work` returns, such as [`Exceeded::Bytes`].
pub async fn compute<T, E>(
    namespace: &str,
    limits: ComputationLimits,
    work: impl FnOnce(&Budget) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Exceeded> + Send + 'static,
{
    compute_in(&LANE, namespace, limits, work).await
}

async fn compute_in<T, E>(
    lane: &Lane,
    namespace: &str,
    limits: ComputationLimits,
    work: impl FnOnce(&Budget) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Exceeded> + Send + 'static,
{
    let turn = lane.enter(namespace).await;
    let budget = Arc::new(Budget::new(limits.bytes));
    // Stops the work when the caller drops this future.
    let stop = StopOnDrop(Arc::clone(&budget));
    let mut working = tokio::task::spawn_blocking(move || {
        let _turn: Turn = turn;
        work(&budget)
    });
    let ended = timeout(limits.time, &mut working).await;
    drop(stop);
    match ended {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that shuts down cancels the task.
            Err(_cancelled) => std::future::pending().await,
        },
        Err(_) => Err(Exceeded::Time.into()),
    }
}

struct StopOnDrop(Arc<Budget>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    const LIMITS: ComputationLimits = ComputationLimits { bytes: 100, time: Duration::from_mins(1) };

    #[tokio::test]
    async fn work_that_needs_more_than_its_bytes_is_refused() {
        let lane = Lane::new(1, 1);
        let made = compute_in(&lane, "a", LIMITS, |budget| {
            budget.spend(60)?;
            budget.spend(60)?;
            Ok::<_, Exceeded>("made")
        });
        assert_eq!(made.await, Err(Exceeded::Bytes { limit: 100 }));
        assert_eq!(
            compute_in(&lane, "a", LIMITS, |_| Ok::<_, Exceeded>(1)).await,
            Ok(1),
            "its place is free"
        );
    }

    #[tokio::test]
    async fn work_out_of_time_is_stopped_and_keeps_its_place_until_it_ends() {
        let lane = Lane::new(2, 1);
        let ended = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&ended);
        let endless = move |budget: &Budget| {
            while budget.spend(0).is_ok() {
                std::thread::yield_now();
            }
            note.store(true, Ordering::SeqCst);
            Err::<(), _>(Exceeded::Time)
        };
        let limits = ComputationLimits { time: Duration::from_millis(5), ..LIMITS };
        assert_eq!(compute_in(&lane, "a", limits, endless).await, Err(Exceeded::Time));
        compute_in(&lane, "a", LIMITS, |_| Ok::<_, Exceeded>(())).await.unwrap();
        assert!(ended.load(Ordering::SeqCst), "the second of the namespace waited for the first");
    }

    #[tokio::test]
    async fn work_of_one_namespace_keeps_no_other_waiting() {
        let lane = Lane::new(2, 1);
        let (release, held) = mpsc::channel::<()>();
        let long = compute_in(&lane, "a", LIMITS, move |_| Ok::<_, Exceeded>(held.recv().is_ok()));
        let mut long = std::pin::pin!(long);
        let mut second = std::pin::pin!(compute_in(&lane, "a", LIMITS, |_| Ok::<_, Exceeded>(())));
        assert!(futures::poll!(long.as_mut()).is_pending());
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert_eq!(compute_in(&lane, "b", LIMITS, |_| Ok::<_, Exceeded>(2)).await, Ok(2));
        assert!(futures::poll!(second.as_mut()).is_pending());
        release.send(()).unwrap();
        assert_eq!(long.await, Ok(true));
        assert_eq!(second.await, Ok(()));
    }
}
