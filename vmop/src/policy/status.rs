//! What a policy says of itself.

use api::conditions::{Condition, ERROR, INFO, READY, WARNING, vmop as known};
use api::vmop::{ResourcePoolStatus, VirtualMachineSetResourcePolicy, VirtualMachineSetResourcePolicyStatus};

use super::Error;
use super::act::Realised;

/// The status of `policy`, its condition without a time.
pub fn status(
    policy: &VirtualMachineSetResourcePolicy,
    realised: Option<&Realised>,
    error: Option<&Error>,
) -> VirtualMachineSetResourcePolicyStatus {
    let mut status = policy.status.clone().unwrap_or_default();
    if let Some(realised) = realised {
        status.folder_mo_id = Some(realised.place.folder.id().to_owned());
        status.resource_pools = vec![ResourcePoolStatus {
            cluster_mo_id: realised.cluster.id().to_owned(),
            child_resource_pool_mo_id: realised.place.pool.id().to_owned(),
        }];
        // Only what was realised was observed: guarantees are brought up to date by it.
        status.observed_generation = policy.metadata.generation;
    }
    status.conditions = vec![match error {
        None => Condition::is_true(READY),
        Some(error) => not_ready(error, policy.metadata.deletion_timestamp.is_some()),
    }];
    status
}

fn not_ready(error: &Error, deleting: bool) -> Condition {
    let (severity, reason) = match error {
        Error::Provider(_) => (ERROR, known::PROVIDER_NOT_READY),
        Error::Unmet(unmet) => (ERROR, unmet.reason),
        Error::Occupied(_) => (INFO, known::DELETING),
        Error::Vcenter(error) if error.retryable() => (WARNING, error.category()),
        Error::Vcenter(_) if deleting => (ERROR, known::DELETION_FAILED),
        Error::Vcenter(error) => (ERROR, error.category()),
        Error::Api(_) => (WARNING, "ApiServer"),
    };
    let message = match error {
        Error::Vcenter(error) => format!("{error}. {}", error.advice()),
        other => other.to_string(),
    };
    Condition::is_false(READY, severity, reason, message)
}
