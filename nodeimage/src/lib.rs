//! Builds node images: Debian, the programs of a Kubernetes node, and the containers' images that a cluster needs to come up,
//! as one disk for vSphere and for QEMU.
//!
//! | module | what is in it |
//! |---|---|
//! | `release`, `os` | what images can be made of |
//! | `debian` | which packages, fetched and unpacked; the lock file that pins them |
//! | `containers` | the containers' images and the files of each |
//! | `sources` | the files in the crate's other folders, which are part of the program |
//! | `builder` | runs the steps of `steps/` among tools of Debian's packages |
//! | `ovf`, `ova`, `vmdk` | what vSphere imports |
//! | `contents`, `licence`, `spdx` | the list of what is in it |
//! | `build` | the order of it all |
//!
//! Formats that others' tools write are written by them (mke2fs, mtools, sfdisk, ukify, qemu-img), and those come from the
//! packages that the lock file pins. So the same inputs make the same bytes on every machine.

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
mod digest;
mod error;
mod licence;
mod os;
mod ova;
mod ovf;
mod release;
mod sources;
mod spdx;
mod vmdk;

pub use build::{BuildRequest, BuiltImage, Preload, build};
pub use containers::image_names;
pub use debian::{Lock, Package};
pub use error::{Error, Result};
pub use os::{OperatingSystem, SYSTEMS};
pub use ovf::properties;
pub use release::{KubernetesRelease, RELEASES};
