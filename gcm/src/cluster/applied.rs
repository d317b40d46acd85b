//! The objects that a reconcile has applied. Status is computed from them.

use std::sync::Arc;

use api::capi::{Cluster, KubeadmControlPlane, MachineDeployment};
use api::capw::WCPCluster;
use kube::ResourceExt;

use super::facts::Facts;
use crate::addons::guests::GuestReports;

/// The objects that a reconcile has applied, as the API server returned them. After an error, contains only the objects applied
/// before it.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    pub cluster: Option<Arc<Cluster>>,
    pub wcp_cluster: Option<Arc<WCPCluster>>,
    pub control_plane: Option<Arc<KubeadmControlPlane>>,
    /// The MachineDeployments of the node pools.
    pub deployments: Vec<Arc<MachineDeployment>>,
    /// The reports about the workload cluster, if add-ons were requested.
    pub guest: Option<RequestedGuest>,
}

/// The reports about a workload cluster whose add-ons were requested, or `None` before its first round.
#[derive(Clone, Debug)]
pub struct RequestedGuest(pub Option<GuestReports>);

impl Applied {
    /// Replaces the objects in `read` with the applied ones. Otherwise the status would report a cluster as settled although its
    /// objects have just changed.
    pub fn over(self, read: Facts) -> Facts {
        let Self { cluster, wcp_cluster, control_plane, deployments, guest } = self;
        let written = |name: &str| deployments.iter().any(|deployment| deployment.name_any() == name);
        let mut pools = read.deployments;
        pools.retain(|deployment| !written(&deployment.name_any()));
        pools.extend(deployments);
        pools.sort_by_key(|deployment| deployment.name_any());
        let (addons, synced, survey) = match guest {
            Some(RequestedGuest(Some(GuestReports { addons, synced, survey, kubernetes: _ }))) => {
                (Some(addons), Some(synced), survey)
            }
            Some(RequestedGuest(None)) => (None, None, None),
            None => (read.addons, read.synced, read.survey),
        };
        Facts {
            cluster: cluster.or(read.cluster),
            wcp_cluster: wcp_cluster.or(read.wcp_cluster),
            control_plane: control_plane.or(read.control_plane),
            deployments: pools,
            addons,
            synced,
            survey,
            ..read
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fixtures::ClusterFixture;
    use crate::testing::sound;

    #[test]
    fn status_is_computed_from_what_was_applied_and_otherwise_from_what_was_read() {
        let read = ClusterFixture::running(sound()).facts();
        let mut changed = (*read.deployments[0]).clone();
        changed.spec.replicas = Some(7);
        let mut new = changed.clone();
        new.metadata.name = Some("a-new-pool".to_owned());
        let deployments = vec![Arc::new(changed), Arc::new(new)];
        let seen = Applied { deployments, ..Applied::default() }.over(read.clone());
        let replicas: Vec<_> =
            seen.deployments.iter().map(|pool| (pool.name_any(), pool.spec.replicas)).collect();
        let name = read.deployments[0].name_any();
        assert_eq!(replicas, [("a-new-pool".to_owned(), Some(7)), (name, Some(7))]);
        assert_eq!(seen.cluster, read.cluster);
        assert_eq!(seen.addons.map(|reports| reports.len()), Some(1), "nothing was requested of the guest");
        let guest = Some(RequestedGuest(None));
        assert!(Applied { guest, ..Applied::default() }.over(read).addons.is_none());
    }
}
