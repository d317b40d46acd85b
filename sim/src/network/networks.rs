//! The networks that interfaces can be on.

use std::collections::BTreeMap;

use crate::vcsim::VcenterEndpoint;

/// The networks that interfaces can be on.
#[derive(Clone, Debug)]
pub(crate) struct Networks {
    /// MoIDs by name.
    pub port_groups: BTreeMap<String, String>,
    /// The one of interfaces that name none.
    pub default: String,
    /// NSX's UUID of the segment that stands for every VirtualNetwork.
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
