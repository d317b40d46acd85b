//! Canaries in every field, and what a bundle has of them.

mod canaries;
mod kinds;
mod scrubbing;
mod whole;
