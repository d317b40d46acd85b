//! What runs in the site's VMs.

use crate::boot_image::BootImage;

use super::further_release::FurtherRelease;

/// What runs in VMs that are powered on.
#[derive(Clone, Debug)]
pub enum Nodes {
    /// Guests that are played: Kubernetes' own control plane, and no kernel, container runtime or Pod; of these releases besides
    /// those that every site has.
    Simulated(Vec<FurtherRelease>),
    /// Machines of QEMU, from these images.
    Qemu(Vec<BootImage>),
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Simulated(Vec::new())
    }
}
