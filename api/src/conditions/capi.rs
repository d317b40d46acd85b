//! Condition types and reasons for Cluster API's own kinds, as far as Layercake reads them.
//!
//! These conditions mostly describe progress and don't contain severities. [`severity`] recognizes errors by type and reason.

use super::FALSE;
use super::severity::Severity;

constants! {
    /// The object is operational.
    AVAILABLE = "Available";
    /// On a Machine: its bootstrap data is ready.
    BOOTSTRAP_CONFIG_READY = "BootstrapConfigReady";
    /// On a Machine: its infrastructure is ready.
    INFRASTRUCTURE_READY = "InfrastructureReady";
    /// On a Machine: its Node is Ready.
    NODE_READY = "NodeReady";
    /// On a Machine: its Node is Ready and not under pressure.
    NODE_HEALTHY = "NodeHealthy";
    /// On a Machine: its MachineHealthCheck finds it healthy.
    HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded";
    /// On a Machine after a failed health check: its owner has replaced it, or reports progress.
    OWNER_REMEDIATED = "OwnerRemediated";
    /// On a KubeadmControlPlane: the cluster's certificate authorities exist.
    CERTIFICATES_AVAILABLE = "CertificatesAvailable";
    /// Machines are being added, or can't be added.
    SCALING_UP = "ScalingUp";
    /// The object is being deleted.
    DELETING = "Deleting";
    /// On a Cluster: its objects match its topology.
    TOPOLOGY_RECONCILED = "TopologyReconciled";
    /// On a Cluster: its topology can't be applied, for example because its ClusterClass doesn't exist.
    TOPOLOGY_RECONCILE_FAILED = "ReconcileFailed";
    /// On a Cluster: its ClusterClass has changed, and Cluster API hasn't checked it yet.
    CLASS_NOT_RECONCILED = "ClusterClassNotReconciled";

    /// The Machine's owner is deleting it, to replace it.
    MACHINE_DELETING = "MachineDeleting";
    /// An object that the Machine refers to isn't ready.
    NOT_READY = "NotReady";
    /// An object that the Machine refers to doesn't exist.
    DOES_NOT_EXIST = "DoesNotExist";
    /// An object that the Machine refers to was deleted.
    DELETED = "Deleted";
}

/// Returns the severity of a condition on a Cluster, KubeadmControlPlane, MachineDeployment, MachineSet or Machine.
pub fn severity(type_: &str, status: &str, reason: &str) -> Severity {
    match (type_, status, reason) {
        (BOOTSTRAP_CONFIG_READY | INFRASTRUCTURE_READY, _, DOES_NOT_EXIST | DELETED)
        | (NODE_READY, FALSE, _)
        | (TOPOLOGY_RECONCILED, FALSE, TOPOLOGY_RECONCILE_FAILED | CLASS_NOT_RECONCILED) => Severity::Warning,
        (BOOTSTRAP_CONFIG_READY, FALSE, NOT_READY) | (SCALING_UP | DELETING, ..) => Severity::Info,
        _ => Severity::Waiting,
    }
}
