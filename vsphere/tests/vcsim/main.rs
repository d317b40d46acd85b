//! Tests the client against a real vcsim process: the requests that it sends, their number, and failure handling.
//!
//! The tests are skipped with a message if vcsim isn't built.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Runs each test over both wire protocols, and over SOAP against the simulator's upstream PropertyCollector.
macro_rules! everywhere {
    ($($test:ident),* $(,)?) => {
        support::on_both_wires!($($test),*);

        mod upstream_collector { $(
            #[tokio::test]
            async fn $test() {
                let Some(sim) = support::vcsim::Sim::upstream(stringify!($test)) else { return };
                super::$test(sim).await;
            }
        )* }
    };
}

mod automation;
mod failures;
mod places;
mod uploads;
mod vm_changes;
mod vms;
