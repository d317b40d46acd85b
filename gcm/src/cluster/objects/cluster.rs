//! Cluster and WCPCluster.

use api::capi::{
    Cluster, ClusterClusterNetwork, ClusterClusterNetworkPods, ClusterClusterNetworkServices,
    ClusterControlPlaneRef, ClusterInfrastructureRef, ClusterSpec, KubeadmControlPlane,
};
use api::capw::{WCPCluster, WCPClusterSpec};
use api::gcm::parts::NetworkRanges;
use api::names::{self, label};

use super::input::{Input, TypedReference};
use crate::admission::defaults;

/// The Cluster; address ranges go down as their author wrote them, host bits and all.
pub fn cluster(input: &Input<'_>) -> Cluster {
    let control_plane = TypedReference::to::<KubeadmControlPlane>(&names::control_plane(&input.name()));
    let infrastructure = TypedReference::to::<WCPCluster>(&input.name());
    Cluster {
        metadata: input.metadata(&input.name(), &[(label::TKR, &input.release_label())]),
        spec: ClusterSpec {
            cluster_network: Some(network(input)),
            control_plane_ref: Some(ClusterControlPlaneRef {
                api_group: control_plane.api_group,
                kind: control_plane.kind,
                name: control_plane.name,
            }),
            infrastructure_ref: Some(ClusterInfrastructureRef {
                api_group: infrastructure.api_group,
                kind: infrastructure.kind,
                name: infrastructure.name,
            }),
            ..ClusterSpec::default()
        },
        status: None,
    }
}

fn network(input: &Input<'_>) -> ClusterClusterNetwork {
    let settings = input.tkc.spec.settings.as_ref().and_then(|settings| settings.network.as_ref());
    let blocks = |ranges: Option<&NetworkRanges>| {
        ranges.and_then(|ranges| ranges.cidr_blocks.clone()).filter(|blocks| !blocks.is_empty())
    };
    let pods = blocks(settings.and_then(|network| network.pods.as_ref()));
    let services = blocks(settings.and_then(|network| network.services.as_ref()));
    let domain = settings.and_then(|network| network.service_domain.as_deref());
    ClusterClusterNetwork {
        service_domain: Some(domain.unwrap_or(defaults::DOMAIN).to_owned()),
        pods: pods.map(|cidr_blocks| ClusterClusterNetworkPods { cidr_blocks }),
        services: services.map(|cidr_blocks| ClusterClusterNetworkServices { cidr_blocks }),
        ..ClusterClusterNetwork::default()
    }
}

/// The WCPCluster; capw fills in the endpoint.
pub fn wcp_cluster(input: &Input<'_>) -> WCPCluster {
    WCPCluster { metadata: input.metadata(&input.name(), &[]), spec: WCPClusterSpec::default(), status: None }
}
