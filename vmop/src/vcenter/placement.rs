//! Where VMs lie in vCenter.

use vsphere::MoRef;

/// Where a VM lies: a folder and a resource pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The folder.
    pub folder: MoRef,
    /// The resource pool.
    pub pool: MoRef,
}
