//! The client against a vCenter of a few lines, which says what the test wants it to.

mod fake;
mod requests;
mod session;
mod stream;
