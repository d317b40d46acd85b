//! What the tests of several folders begin with, and tests of no folder's own.

pub mod fixtures;
pub mod vcsim;

mod documented_tests;
