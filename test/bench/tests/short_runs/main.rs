//! Short runs of the programs that create many VMs. They mostly wait, so all run at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod scale;
