//! What the tests of several folders begin with.

pub mod context;
pub mod fixtures;
pub mod vcsim;
pub mod wait;
