//! Builds the Cluster and the WCPCluster.

use api::capi::{
    Cluster, ClusterClusterNetwork, ClusterClusterNetworkPods, ClusterClusterNetworkServices, ClusterSpec,
    KubeadmControlPlane,
};
use api::capw::{WCPCluster, WCPClusterSpec};
use api::names::{self, finalizer, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use crate::cluster::input::{Input, reference_to};
use crate::spec::network::ClusterNetwork;

/// Returns the Cluster. Address ranges are copied verbatim, including host bits.
pub fn build_cluster(input: &Input<'_>) -> Cluster {
    let control_plane = reference_to::<KubeadmControlPlane>(&names::control_plane(&input.name()));
    let infrastructure = reference_to::<WCPCluster>(&input.name());
    Cluster {
        metadata: ObjectMeta {
            finalizers: Some(vec![finalizer::CLUSTER.to_owned()]),
            ..input.metadata(&input.name(), &[(label::TKR, &input.release_label())])
        },
        spec: ClusterSpec {
            cluster_network: Some(network(input)),
            control_plane_ref: Some(control_plane),
            infrastructure_ref: Some(infrastructure),
            ..ClusterSpec::default()
        },
        status: None,
    }
}

fn network(input: &Input<'_>) -> ClusterClusterNetwork {
    let ClusterNetwork { cni: _, pods, services, domain, proxy: _, trust: _ } = input.network;
    ClusterClusterNetwork {
        service_domain: Some(domain.to_owned()),
        pods: (!pods.is_empty()).then(|| ClusterClusterNetworkPods { cidr_blocks: pods.to_vec() }),
        services: (!services.is_empty())
            .then(|| ClusterClusterNetworkServices { cidr_blocks: services.to_vec() }),
        ..ClusterClusterNetwork::default()
    }
}

/// Adds an owner reference to the Cluster, as Cluster API itself would add it.
pub fn join<K: Resource>(object: &mut K, cluster: &Cluster) {
    let owner = OwnerReference {
        api_version: Cluster::api_version(&()).into_owned(),
        kind: Cluster::kind(&()).into_owned(),
        name: cluster.name_any(),
        uid: cluster.uid().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    };
    object.meta_mut().owner_references.get_or_insert_default().push(owner);
}

/// Returns the WCPCluster. capw fills in the endpoint.
pub fn wcp_cluster(input: &Input<'_>) -> WCPCluster {
    WCPCluster { metadata: input.metadata(&input.name(), &[]), spec: WCPClusterSpec::default(), status: None }
}
