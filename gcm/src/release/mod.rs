//! Releases: from node images to TanzuKubernetesRelease and OSImage objects, and from the version that a cluster requests
//! to its release.
//!
//! An image says in its OVF properties which release it carries. Only images of libraries that the administrator names for
//! releases count, and of those none that was published. For each image there is an OSImage of the same name; images of one
//! release share a TanzuKubernetesRelease, as long as they agree about it. Both kinds may also be written by hand, for images
//! that say nothing: those are read, their status is kept, and their spec is left alone.
//!
//! [`resolution`] finds the release that a cluster requests, [`version`] compares versions, and [`query`] reads selectors.

pub mod cache;
pub mod conflict;
pub mod controller;
pub mod image;
pub mod kubernetes_release;
pub mod labels;
pub mod networks;
pub mod node_image;
pub mod plan;
pub mod query;
pub mod resolution;
pub mod status;
pub mod trust_store;
pub mod version;
pub mod virtual_ip;

pub use kubernetes_release::KubernetesRelease;
pub use node_image::ReleaseImage;

#[cfg(test)]
mod tests;
