//! Builds node images, and imports them into content libraries.

pub mod build;
pub mod import;
