//! Releases: from node images to TanzuKubernetesRelease and OSImage objects, and back to what a cluster needs.
//!
//! An image says in its OVF properties which release it carries. Only images of libraries that the administrator names for
//! releases count, and of those none that was published. For each image there is an OSImage of the same name; images of one
//! release share a TanzuKubernetesRelease, as long as they agree about it. Both kinds may also be written by hand, for images
//! that say nothing: those are read, their status is kept, and their spec is left alone.

pub mod cache;
pub mod conflict;
pub mod controller;
pub mod image;
pub mod labels;
pub mod node_image;
pub mod plan;
pub mod release;
pub mod status;

pub use node_image::ReleaseImage;
pub use release::KubernetesRelease;

#[cfg(test)]
mod tests;
