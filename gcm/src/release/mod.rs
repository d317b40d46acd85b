//! Creates TanzuKubernetesRelease and OSImage objects from node images, and resolves the version that a cluster requests to a
//! release.
//!
//! An image's OVF properties describe the release that it contains. gcm only uses images from libraries that the
//! administrator designates for releases, and ignores published images. Each image gets an OSImage with the same name.
//! Images with the same release share a TanzuKubernetesRelease, if they agree about its contents. Administrators can also
//! write both kinds by hand, for images without properties: gcm reads these and updates their status, but doesn't change
//! their spec.
//!
//! [`resolution`] finds the release that a cluster requests, [`version`] compares versions, and [`query`] parses selectors.

pub mod cache;
pub mod conflict;
pub mod controller;
pub mod error;
pub mod image;
pub mod kubernetes_release;
pub mod labels;
pub mod networks;
pub mod node_image;
pub mod plan;
pub mod query;
pub mod resolution;
pub mod sources;
pub mod status;
pub mod trust_store;
pub mod version;
pub mod virtual_ip;

pub use kubernetes_release::KubernetesRelease;
pub use node_image::ReleaseImage;

#[cfg(test)]
mod tests;
