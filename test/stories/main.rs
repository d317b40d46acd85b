//! Stories on the real stack: what a user does, and what the user then sees.
//!
//! The first story to run starts the stack; the guard removes it when the test program ends.

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
