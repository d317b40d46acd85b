//! Cluster and WCPCluster.

use api::capi::Cluster;
use api::capw::WCPCluster;
use api::gcm::parts::NetworkRanges;
use api::names::{self, label};
use serde_json::{Value, json};

use super::{Input, object};
use crate::admission::defaults;

/// The Cluster; address ranges go down as their author wrote them, host bits and all.
pub fn cluster(input: &Input<'_>) -> Result<Cluster, serde_json::Error> {
    let settings = input.tkc.spec.settings.as_ref().and_then(|settings| settings.network.as_ref());
    let mut network = json!({
        "serviceDomain": settings.and_then(|n| n.service_domain.as_deref()).unwrap_or(defaults::DOMAIN),
    });
    let mut ranges = |key: &str, ranges: Option<&NetworkRanges>| {
        if let Some(blocks) =
            ranges.and_then(|ranges| ranges.cidr_blocks.as_ref()).filter(|blocks| !blocks.is_empty())
        {
            network[key] = json!({ "cidrBlocks": blocks });
        }
    };
    ranges("pods", settings.and_then(|n| n.pods.as_ref()));
    ranges("services", settings.and_then(|n| n.services.as_ref()));
    let spec = json!({
        "clusterNetwork": network,
        "controlPlaneRef": reference::<api::capi::KubeadmControlPlane>(&names::control_plane(&input.name())),
        "infrastructureRef": reference::<WCPCluster>(&input.name()),
    });
    object(&input.metadata(&input.name(), &[(label::TKR, &input.release_label())]), &spec)
}

/// The WCPCluster; capw fills in the endpoint.
pub fn wcp_cluster(input: &Input<'_>) -> Result<WCPCluster, serde_json::Error> {
    object(&input.metadata(&input.name(), &[]), &json!({}))
}

/// A reference as contract v1beta2 has them: without version and namespace.
pub fn reference<K: kube::Resource<DynamicType = ()>>(name: &str) -> Value {
    json!({ "apiGroup": K::group(&()), "kind": K::kind(&()), "name": name })
}
