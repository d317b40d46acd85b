//! The client against a real vcsim process: what crosses the wire, how often, and what is survived.
//!
//! Skipped loudly where no vcsim is built.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Runs every test of the list on each wire, and over SOAP against the simulator's upstream PropertyCollector.
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
