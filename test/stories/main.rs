//! Stories on the real stack: a user's actions and what the user then sees.
//!
//! The first story starts the stack. The guard removes it when the test program ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod causes;
mod clusters;
mod command;
mod guests;
mod harness;
mod install;
mod moves;
mod nodes;
mod tenants;
mod vcenter;
mod virtual_machines;
