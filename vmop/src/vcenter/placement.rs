//! The placement of VMs in vCenter.

use vsphere::MoRef;

/// A VM's folder and resource pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    pub folder: MoRef,
    pub pool: MoRef,
}
