//! The kinds of nodes that a site can run in its VMs.

use crate::boot_image::BootImage;

use super::further_release::FurtherRelease;

/// The kind of machine that runs a powered-on VM, with the node images that the site offers for it.
#[derive(Clone, Debug)]
pub enum NodeRuntime {
    /// Simulated guests: real control plane processes, but without a kernel, container runtime or Pods. The site offers
    /// these releases in addition to `NODE_IMAGES`.
    Simulated(Vec<FurtherRelease>),
    /// QEMU machines that boot these images.
    Qemu(Vec<BootImage>),
}

impl Default for NodeRuntime {
    fn default() -> Self {
        Self::Simulated(Vec::new())
    }
}
