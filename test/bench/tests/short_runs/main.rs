//! Short runs with programs that create many VMs. They mostly wait, so they run in parallel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod scale;
