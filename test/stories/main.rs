//! Stories on the real stack: what a user does, and what the user then sees.
//!
//! The first story to run starts the stack; the guard removes it when the test program ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod admission;
mod beside;
mod by_hand;
mod command;
mod crash;
mod identity;
mod images;
mod life;
mod machine_rules;
mod missing;
mod moved;
mod networks;
mod node_image;
mod outage;
mod page;
mod pools;
mod rest;
mod second;
mod volumes;
mod vsphere_soap;
mod world;
