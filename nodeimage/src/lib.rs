//! Builds node images: Debian, the programs for a Kubernetes node, and the container images that a cluster needs to start, on one
//! disk for vSphere and QEMU.
//!
//! | module | content |
//! |---|---|
//! | `release`, `os` | supported Kubernetes releases and operating systems |
//! | `debian` | selects, downloads and unpacks Debian packages; the lock file that pins them |
//! | `containers` | the preloaded container images and their files |
//! | `sources` | the files in the crate's other folders, which are embedded in the program |
//! | `builder` | runs the build steps in `steps/` with tools from Debian packages |
//! | `ovf`, `ova`, `vmdk` | the files that vSphere imports |
//! | `contents`, `licence`, `spdx` | the software bill of materials (SBOM) |
//! | `build` | the build order |
//!
//! Established tools (mke2fs, mtools, sfdisk, ukify, qemu-img) write the file formats. The tools come from packages
//! that the lock file pins, so the same inputs produce the same bytes on every machine.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)
)]

mod build;
mod builder;
mod command;
mod containers;
mod contents;
mod debian;
mod error;
mod licence;
mod os;
mod ova;
mod ovf;
mod release;
pub mod sbom;
mod sources;
mod vmdk;

pub use build::{BuildRequest, BuiltImage, Preload, build};
pub use containers::image_names;
pub use debian::{DebianPackage, Lock};
pub use error::{Error, Result};
pub use os::{OperatingSystem, SYSTEMS};
pub use ovf::{OvfDescriptor, properties};
pub use release::{RELEASES, SupportedRelease};
