//! Golden templates: library images that are deployed once, so that VMs can be linked clones.
//!
//! Callers look up a template with [`TemplateCache::get`], which doesn't start a deployment, and request it with
//! [`TemplateCache::request`]. The [`deploy_requested`] loop deploys each requested template once and enqueues the
//! VirtualMachines that wait for the image. [`collect`] destroys unused templates.

mod cache;
mod collect;
mod deploy;
mod key;

#[cfg(test)]
pub use cache::TemplateRequests;
pub use cache::{GoldenTemplate, IsWanted, OnChange, TemplateCache, TemplateState};
pub use collect::{COLLECT_DELAY, collect, unused};
pub use deploy::deploy_requested;
pub use key::TemplateKey;
