//! Computing on what others wrote: within a byte budget and a time limit, on a thread that no other work needs, and one
//! computation of a namespace at a time.
//!
//! Reconciles, webhooks and the lease share a few worker threads. Whatever parses, renders, hashes or unpacks untrusted
//! input must not run on them: [`compute`] runs it on a blocking thread. Its [`Budget`] counts every byte that is read, copied
//! or made, so that a small input can't become a large value.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub use bounds::{Budget, Exceeded};
use bounds::{Lane, Turn};
use tokio::time::timeout;

/// Computations that run at the same time, in the whole process.
const PLACES: usize = 4;
/// How many of them are of one namespace.
const PLACES_OF_A_NAMESPACE: usize = 1;

static LANE: LazyLock<Lane> = LazyLock::new(|| Lane::new(PLACES, PLACES_OF_A_NAMESPACE));

/// What one computation may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The bytes that it may read, copy and make, all together.
    pub bytes: usize,
    /// How long it may run. Waiting for a place does not count.
    pub time: Duration,
}

/// Computes `work` on a blocking thread, within `limits`, on behalf of `namespace`. Computations of one namespace wait for
/// each other, and for none of other namespaces but while all places are taken.
///
/// `work` spends its [`Budget`] before it makes values. When its time is up, its next `spend` fails, and this returns
/// [`Exceeded::Time`] at once; work that does not look at its budget keeps its place until it ends.
///
/// # Errors
/// [`Exceeded::Time`], and whatever `work` returns, which may be [`Exceeded::Bytes`].
pub async fn compute<T, E>(
    namespace: &str,
    limits: Limits,
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
    limits: Limits,
    work: impl FnOnce(&Budget) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Exceeded> + Send + 'static,
{
    let turn = lane.enter(namespace).await;
    let budget = Arc::new(Budget::new(limits.bytes));
    // Whoever stops waiting stops the work.
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
            // The runtime goes, and all its tasks with it.
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

    const LIMITS: Limits = Limits { bytes: 100, time: Duration::from_mins(1) };

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
        let limits = Limits { time: Duration::from_millis(5), ..LIMITS };
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
