//! What Cluster API's own kinds say of themselves, as far as it is read.
//!
//! They know no causes, only what they wait for; type and reason distinguish what a
//! Machine's bootstrap configuration and Node report.

use super::FALSE;
use super::severity::Severity;

constants! {
    /// The object serves.
    AVAILABLE = "Available";
    /// Of a Machine: its bootstrap data is there.
    BOOTSTRAP_CONFIG_READY = "BootstrapConfigReady";
    /// Of a Machine: its infrastructure is there.
    INFRASTRUCTURE_READY = "InfrastructureReady";
    /// Of a Machine: its Node is Ready.
    NODE_READY = "NodeReady";
    /// Of a Machine: its Node is Ready and has no pressure.
    NODE_HEALTHY = "NodeHealthy";
    /// Of a Machine: its MachineHealthCheck has nothing against it.
    HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded";
    /// Of a Machine whose health check failed: its owner has replaced it, or says how far that is.
    OWNER_REMEDIATED = "OwnerRemediated";
    /// Of a KubeadmControlPlane: the authorities of its cluster are there.
    CERTIFICATES_AVAILABLE = "CertificatesAvailable";
    /// Machines are being added, or can't be.
    SCALING_UP = "ScalingUp";
    /// The object is going away.
    DELETING = "Deleting";
    /// Of a Cluster: its objects are as its topology says.
    TOPOLOGY_RECONCILED = "TopologyReconciled";
    /// Of a Cluster: its topology cannot be carried out, for example because its ClusterClass does not exist.
    TOPOLOGY_RECONCILE_FAILED = "ReconcileFailed";
    /// Of a Cluster: its ClusterClass has changed, and Cluster API has not checked it yet.
    CLASS_NOT_RECONCILED = "ClusterClassNotReconciled";

    /// The Machine's owner deletes it, to have another in its place.
    MACHINE_DELETING = "MachineDeleting";
    /// What the Machine refers to is not ready.
    NOT_READY = "NotReady";
    /// What the Machine refers to is not there.
    DOES_NOT_EXIST = "DoesNotExist";
    /// What the Machine refers to was there, and is gone.
    DELETED = "Deleted";
}

/// The severity of a condition of a Cluster, KubeadmControlPlane, MachineDeployment, MachineSet or Machine.
pub fn severity(type_: &str, status: &str, reason: &str) -> Severity {
    match (type_, status, reason) {
        (BOOTSTRAP_CONFIG_READY | INFRASTRUCTURE_READY, _, DOES_NOT_EXIST | DELETED)
        | (NODE_READY, FALSE, _)
        | (TOPOLOGY_RECONCILED, FALSE, TOPOLOGY_RECONCILE_FAILED | CLASS_NOT_RECONCILED) => Severity::Warning,
        (BOOTSTRAP_CONFIG_READY, FALSE, NOT_READY) | (SCALING_UP | DELETING, ..) => Severity::Info,
        _ => Severity::Waiting,
    }
}
