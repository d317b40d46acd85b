//! At rest vCenter hears nothing but the long poll.

use std::time::Duration;

use crate::world::disruptive_story;

/// Long enough for several long polls' worth of idle work to show, if there were any.
const REST: Duration = Duration::from_secs(15);

#[test]
fn at_rest_there_is_only_the_long_poll() {
    disruptive_story("rest", |story| async move {
        let control = story.world.control();
        story
            .until("vCenter is left alone", crate::world::SOON, || async {
                control.forget_requests().await.unwrap();
                let quiet = tokio::time::Instant::now() + REST;
                tokio::time::sleep_until(quiet).await;
                let requests = control.requests().await.unwrap();
                let polls = requests.of("WaitForUpdatesEx");
                (requests.total == polls && polls <= 2).then_some(())
            })
            .await;
    });
}
