//! Tests that plant canaries in all fields and search bundles for them.

mod canaries;
mod kinds;
mod scrubbing;
mod whole;
