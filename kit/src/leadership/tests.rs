use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use support::api_server::{refusal, server};
use tokio::runtime::Runtime;

use super::*;

/// Waits until `is_so` returns true, on a thread that doesn't belong to a runtime.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Creates a candidate and a counter for its renewals. The candidate's API server has one Lease, and refuses every request once
/// `broken` is true.
fn candidate(renew_within: Duration, broken: &Arc<AtomicBool>) -> (Leadership, Arc<AtomicUsize>) {
    let renewals = Arc::<AtomicUsize>::default();
    let (counted, broken) = (Arc::clone(&renewals), Arc::clone(broken));
    let elections: MakeElections = Box::new(move || {
        let stored = Mutex::new(serde_json::json!({"metadata": {"name": "l"}, "spec": {}}));
        let (client, _) = server(move |request| {
            if broken.load(Ordering::SeqCst) {
                return refusal(500, "InternalError");
            }
            if request.method == "PUT" {
                *stored.lock() = request.body.clone();
                counted.fetch_add(1, Ordering::SeqCst);
            }
            (200, stored.lock().clone())
        });
        Ok(Elections::new(client, "n", "l", "me").quick(renew_within))
    });
    (Leadership::new(Some(elections)), renewals)
}

/// Blocks every worker thread of the program's runtime until the sender is dropped.
fn blocked(runtime: &Runtime, workers: usize) -> Sender<()> {
    let (release, held) = channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let blocked = Arc::<AtomicUsize>::default();
    for _ in 0..workers {
        let (held, blocked) = (Arc::clone(&held), Arc::clone(&blocked));
        runtime.spawn(async move {
            blocked.fetch_add(1, Ordering::SeqCst);
            // The first worker waits for the sender, the others wait for the lock.
            let _ = held.lock().recv();
        });
    }
    eventually("the workers are blocked", || blocked.load(Ordering::SeqCst) == workers);
    release
}

fn two_workers() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn the_lease_is_renewed_while_every_worker_is_blocked() {
    let (leadership, renewals) = candidate(Duration::from_mins(1), &Arc::default());
    let runtime = two_workers();
    runtime.block_on(leadership.acquire(&CancellationToken::new())).unwrap();
    let release = blocked(&runtime, 2);
    let before = renewals.load(Ordering::SeqCst);
    eventually("the lease is renewed", || renewals.load(Ordering::SeqCst) > before + 3);
    assert!(!leadership.lost.is_cancelled());
    drop(release);
    runtime.block_on(leadership.release());
}

#[test]
fn the_process_ends_when_the_lease_is_lost_while_every_worker_is_blocked() {
    let broken = Arc::default();
    let (mut leadership, _) = candidate(Duration::from_millis(200), &broken);
    let ended = Arc::<AtomicBool>::default();
    let note = Arc::clone(&ended);
    leadership.end_process = Arc::new(move || note.store(true, Ordering::SeqCst));
    leadership.last_grace = Duration::from_millis(1);
    let runtime = two_workers();
    runtime.block_on(leadership.acquire(&CancellationToken::new())).unwrap();
    let release = blocked(&runtime, 2);
    assert!(!ended.load(Ordering::SeqCst));
    broken.store(true, Ordering::SeqCst);
    eventually("the process ends", || ended.load(Ordering::SeqCst));
    assert!(leadership.lost.is_cancelled(), "the program knew before");
    drop(release);
}

#[tokio::test]
async fn a_lease_that_is_given_up_is_not_lost_and_free_for_others() {
    let (leadership, renewals) = candidate(Duration::from_mins(1), &Arc::default());
    leadership.acquire(&CancellationToken::new()).await.unwrap();
    assert!(leadership.tenure.check().is_ok());
    leadership.release().await;
    let written = renewals.load(Ordering::SeqCst);
    assert!(written >= 2, "taken and given up: {written}");
    assert!(!leadership.lost.is_cancelled());
}

#[tokio::test]
async fn who_does_not_lead_yet_ends_at_a_shutdown() {
    let broken = Arc::new(AtomicBool::new(true));
    let (leadership, _) = candidate(Duration::from_mins(1), &broken);
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    assert!(leadership.acquire(&shutdown).await.is_err());
    broken.store(false, Ordering::SeqCst);
    leadership.release().await;
}
