//! Helpers that tests in several modules share.

pub mod context;
pub mod fixtures;
pub mod vcsim;
pub mod wait;
