//! The vCenter networks to which the providers connect interfaces.

use std::collections::BTreeMap;

use crate::vcsim::VcenterEndpoint;

/// The networks to which interfaces can be connected.
#[derive(Clone, Debug)]
pub(crate) struct Networks {
    /// Managed object ids by network name.
    pub port_groups: BTreeMap<String, String>,
    /// The network name for interfaces that don't specify one.
    pub default: String,
    /// The NSX segment UUID, which all VirtualNetworks share.
    pub segment: Option<String>,
}

impl Networks {
    pub fn of(vcenter: &VcenterEndpoint) -> Self {
        Self {
            port_groups: vcenter.networks.clone(),
            default: vcenter.network.clone(),
            segment: vcenter.segments.values().next().cloned(),
        }
    }
}
