//! Computes a policy's status.

use api::conditions::{Condition, ERROR, INFO, READY, WARNING, vmop as known};
use api::vmop::{
    ClusterModuleStatus, ControlPlaneEndpointStatus, ResourcePoolStatus, VirtualMachineSetResourcePolicy,
    VirtualMachineSetResourcePolicyStatus,
};

use crate::policy::context::{Error, PolicyError};
use crate::vcenter::RealizedPolicy;

/// A policy that is realized in vCenter.
pub struct Realized {
    /// The folder, pool and modules in each placement.
    pub places: Vec<RealizedPolicy>,
    /// The current use of the policy's control plane endpoint.
    pub endpoint: Option<ControlPlaneEndpointStatus>,
}

/// Returns the status of `policy`. The condition doesn't have a transition time yet.
pub fn status(
    policy: &VirtualMachineSetResourcePolicy,
    realized: Option<&Realized>,
    error: Option<&Error>,
) -> VirtualMachineSetResourcePolicyStatus {
    let mut status = policy.status.clone().unwrap_or_default();
    if let Some(Realized { places, endpoint }) = realized {
        status.control_plane_endpoint.clone_from(endpoint);
        status.folder_mo_id = places.first().map(|realized| realized.placement.folder.id().to_owned());
        let pools = places.iter().map(|realized| ResourcePoolStatus {
            cluster_mo_id: realized.cluster.id().to_owned(),
            child_resource_pool_mo_id: realized.placement.pool.id().to_owned(),
        });
        status.resource_pools = pools.collect();
        status.cluster_modules = places.iter().flat_map(modules).collect();
        // A generation is observed only after it was realized, because that updates the pool's reservations and limits.
        status.observed_generation = policy.metadata.generation;
    }
    status.conditions = vec![match error {
        None => Condition::is_true(READY),
        Some(error) => not_ready(error, policy.metadata.deletion_timestamp.is_some()),
    }];
    status
}

fn modules(realized: &RealizedPolicy) -> impl Iterator<Item = ClusterModuleStatus> {
    realized.modules.iter().map(|(group, id)| ClusterModuleStatus {
        group_name: group.clone(),
        module_uuid: id.clone(),
        cluster_mo_id: realized.cluster.id().to_owned(),
    })
}

fn not_ready(error: &Error, deleting: bool) -> Condition {
    let (severity, reason) = match error {
        Error::Provider(_) => (ERROR, known::PROVIDER_NOT_READY),
        Error::Own(PolicyError::Unmet(unmet)) => (ERROR, unmet.reason),
        Error::Own(PolicyError::Occupied(_)) => (INFO, known::DELETING),
        Error::Vcenter(error) if error.retryable() => (WARNING, error.category()),
        Error::Vcenter(_) if deleting => (ERROR, known::DELETION_FAILED),
        Error::Vcenter(error) => (ERROR, error.category()),
        Error::StaleCache(_) | Error::Api(_) => (WARNING, known::API_SERVER),
    };
    let message = match error {
        Error::Vcenter(error) => format!("{error}. {}", error.advice()),
        other => other.to_string(),
    };
    Condition::is_false(READY, severity, reason, message)
}
