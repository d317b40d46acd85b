//! Waiting for something that no future tells.

use support::wait::within;

/// Waits until it is `so`; the test fails after a minute.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let looking = async {
        while !so() {
            tokio::task::yield_now().await;
        }
    };
    within(what, looking).await;
}
