//! Golden templates: a library image deployed once, from which every VM is a linked clone.
//!
//! Whoever needs one asks [`TemplateCache::get`], which starts nothing, and
//! [`TemplateCache::request`]s it; the loop [`deploy_requested`] deploys it, once for each key however
//! many request it, and wakes the VirtualMachines that wait for the image. [`collect`] destroys the
//! templates that nothing needs any more.

mod cache;
mod collect;
mod deploy;
mod key;

#[cfg(test)]
pub use cache::TemplateRequests;
pub use cache::{IsWanted, OnChange, Template, TemplateCache, TemplateState};
pub use collect::{COLLECT_DELAY, collect, unused};
pub use deploy::deploy_requested;
pub use key::TemplateKey;
