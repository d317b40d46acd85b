//! Waits for conditions that tests can only poll.

use support::wait::within;

/// Waits until `so` holds. The test fails after a minute.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let looking = async {
        while !so() {
            tokio::task::yield_now().await;
        }
    };
    within(what, looking).await;
}
