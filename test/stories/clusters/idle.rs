//! While a cluster runs unchanged, vCenter receives only long polls.

use std::time::Duration;

use crate::harness::objects::one_and_one;
use crate::harness::story::{CLUSTER, SOON, disruptive_story};

/// A time in which idle work would show up, if there were any.
const REST: Duration = Duration::from_secs(15);

#[test]
fn at_rest_there_is_only_the_long_poll() {
    disruptive_story("rest", |story| async move {
        story.apply(&one_and_one("resting", "workers")).await;
        story.wait_until_running("resting").await;
        let control = story.shared.control();
        story
            .wait_for("vCenter is left alone", SOON, || async {
                control.forget_requests().await.unwrap();
                let quiet = tokio::time::Instant::now() + REST;
                tokio::time::sleep_until(quiet).await;
                let requests = control.requests().await.unwrap();
                let polls = requests.of("WaitForUpdatesEx");
                (requests.total == polls && polls <= 2).then_some(())
            })
            .await;
        story.delete("TanzuKubernetesCluster", "resting", CLUSTER).await;
    });
}
