//! Recordings of real vCenters, read for tests: what each request asked and what vCenter answered.
//!
//! The recordings are not part of the repository. [`folder::from_environment`] finds the folder that
//! `LAYERCAKE_RECORDINGS` names. Its files are cassettes of VCR (Ruby and Python), or recordings of
//! `layercake doctor --record`. The README of this crate says which public ones there are.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod allowed;
pub mod cassette;
pub mod exchange;
pub mod folder;
pub mod names;
pub mod page;
pub mod recording;
pub mod traffic;
pub mod vocabulary;

pub use exchange::Exchange;
pub use folder::{File, Folder};
