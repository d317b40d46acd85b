//! Reads recorded exchanges with real vCenters, for tests.
//!
//! The recordings aren't part of the repository. [`folder::from_environment`] returns the folder that
//! `LAYERCAKE_RECORDINGS` names. It contains VCR cassettes (Ruby and Python) or `layercake doctor --record`
//! recordings. This crate's README lists public recordings.

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
pub use folder::{RecordingFile, RecordingsFolder};
