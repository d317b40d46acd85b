//! Conditions: the type with a severity that TKC, TKr and VM Operator kinds carry, and every type
//! and reason as a constant.
//!
//! WCP kinds carry the `Condition` of Kubernetes itself, which has no severity; [`metav1`] turns one
//! into the other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state, in the shape of Cluster API v1beta1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "status"]))]
pub struct Condition {
    /// What the condition is about, in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// How bad a `False` is: `Error`, `Warning` or `Info`. Empty when the status is `True`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Why, in one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last flipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<meta::Time>,
}

/// The status of a condition that holds.
pub const TRUE: &str = "True";
/// The status of a condition that does not hold.
pub const FALSE: &str = "False";
/// The status of a condition nobody can tell yet.
pub const UNKNOWN: &str = "Unknown";

/// Something is broken and does not heal by itself.
pub const ERROR: &str = "Error";
/// Something is wrong, and is being worked on or tolerated.
pub const WARNING: &str = "Warning";
/// Something has not happened yet.
pub const INFO: &str = "Info";

impl Condition {
    /// A condition that holds.
    pub fn is_true(type_: &str) -> Self {
        Self { type_: type_.to_owned(), status: TRUE.to_owned(), ..Self::default() }
    }

    /// A condition that does not hold, and why.
    pub fn is_false(type_: &str, severity: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status: FALSE.to_owned(),
            severity: Some(severity.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            last_transition_time: None,
        }
    }

    /// A condition nobody can tell yet, and why.
    pub fn is_unknown(type_: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status: UNKNOWN.to_owned(),
            severity: None,
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            last_transition_time: None,
        }
    }
}

/// The condition of one type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is there and `True`.
pub fn holds(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}

/// Conditions in the shape of Kubernetes itself, as the WCP kinds and Cluster API v1beta2 carry them.
pub mod metav1 {
    use super::{Condition, TRUE, meta};

    /// The condition of one type, if there is one.
    pub fn find<'a>(conditions: &'a [meta::Condition], type_: &str) -> Option<&'a meta::Condition> {
        conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition of this type is there and `True`.
    pub fn holds(conditions: &[meta::Condition], type_: &str) -> bool {
        find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
    }

    /// A condition with a severity as one without. Kubernetes wants a reason, so a condition that
    /// has none takes its own type's name; `now` stands in for a missing time.
    pub fn from(
        condition: &Condition,
        observed_generation: Option<i64>,
        now: &meta::Time,
    ) -> meta::Condition {
        meta::Condition {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone().unwrap_or_else(|| condition.type_.clone()),
            message: condition.message.clone().unwrap_or_default(),
            observed_generation,
            last_transition_time: condition.last_transition_time.clone().unwrap_or_else(|| now.clone()),
        }
    }

    /// A condition without a severity as one with: a `False` takes the given severity.
    pub fn into(condition: &meta::Condition, severity: &str) -> Condition {
        Condition {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            severity: (condition.status == super::FALSE).then(|| severity.to_owned()),
            reason: Some(condition.reason.clone()).filter(|reason| !reason.is_empty()),
            message: Some(condition.message.clone()).filter(|message| !message.is_empty()),
            last_transition_time: Some(condition.last_transition_time.clone()),
        }
    }
}

/// Declares condition types or reasons: each constant has its own name as value.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*
    };
}

words! {
    /// The summary every kind carries.
    READY = "Ready";
}

/// What a TanzuKubernetesCluster says of itself.
pub mod tkc {
    words! {
        /// The control plane is initialised and has its replicas.
        CONTROL_PLANE_READY = "ControlPlaneReady";
        /// Every node pool has its replicas.
        NODE_POOLS_READY = "NodePoolsReady";
        /// Every add-on is applied.
        ADDONS_READY = "AddonsReady";
        /// Every node is Ready.
        NODES_HEALTHY = "NodesHealthy";
        /// The accounts of the guest's cloud provider and storage driver exist.
        PROVIDER_SERVICE_ACCOUNTS_READY = "ProviderServiceAccountsReady";
        /// Those who may edit the namespace may administer the guest.
        ROLE_BINDING_SYNCED = "RoleBindingSynced";
        /// The namespace's storage classes are in the guest.
        STORAGE_CLASS_SYNCED = "StorageClassSynced";
        /// The guest finds the Supervisor.
        SERVICE_DISCOVERY_READY = "ServiceDiscoveryReady";
        /// The release fits this installation.
        TANZU_KUBERNETES_RELEASE_COMPATIBLE = "TanzuKubernetesReleaseCompatible";
        /// Newer releases can be had; the message lists them.
        UPDATES_AVAILABLE = "UpdatesAvailable";
        /// Of one add-on: it is applied.
        PROVISIONED = "Provisioned";

        /// Nothing has been said yet.
        WAITING_FOR_CONDITIONS = "WaitingForConditions";
        /// The infrastructure of the cluster is not there yet.
        WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure";
        /// The first API server does not answer yet.
        WAITING_FOR_CONTROL_PLANE_INITIALIZED = "WaitingForControlPlaneInitialized";
        /// The control plane lacks replicas.
        WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane";
        /// Nobody can tell how the pools are.
        NODE_POOLS_UNKNOWN = "NodePoolsUnknown";
        /// Pools are scaling or rolling.
        NODE_POOLS_UPDATING = "NodePoolsUpdating";
        /// A pool cannot get its machines.
        NODE_POOLS_FAILED = "NodePoolsFailed";
        /// An add-on could not be applied.
        ADDONS_RECONCILIATION_FAILED = "AddonsReconciliationFailed";
        /// Some node is not Ready.
        WAITING_FOR_NODES_HEALTHY = "WaitingForNodesHealthy";
        /// An account could not be made.
        PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED = "ProviderServiceAccountsReconciliationFailed";
        /// A role binding could not be made in the guest.
        ROLE_BINDING_SYNC_FAILED = "RoleBindingSyncFailed";
        /// A storage class could not be made in the guest.
        STORAGE_CLASS_SYNC_FAILED = "StorageClassSyncFailed";
        /// The Supervisor's service could not be made in the guest.
        SUPERVISOR_HEADLESS_SERVICE_SETUP_FAILED = "SupervisorHeadlessServiceSetupFailed";
        /// Of one add-on: it could not be applied.
        PROVISIONING_FAILED = "ProvisioningFailed";
        /// Of one add-on: it is not ours to apply.
        ADDON_UNMANAGED = "AddonUnManaged";
    }
}

/// What a TanzuKubernetesRelease and an OSImage say of themselves.
pub mod release {
    words! {
        /// The release fits this installation.
        COMPATIBLE = "Compatible";
        /// The release's own data makes sense.
        VALID = "Valid";
        /// Newer releases can be had.
        UPDATES_AVAILABLE = "UpdatesAvailable";
        /// The release's data cannot be read.
        CANNOT_PARSE_TKR = "CannotParseTKR";
        /// Nothing newer is there.
        ALREADY_UP_TO_DATE = "AlreadyUpToDate";
        /// The release says that it does not fit.
        INCOMPATIBLE = "Incompatible";
        /// The release was taken out of use.
        DEACTIVATED = "Deactivated";
        /// An image the release names is missing.
        MISSING_OS_IMAGE = "MissingOSImage";
    }
}

/// The words of Cluster API's v1beta2 contract, and what goes with them, that both WCP kinds share.
pub mod contract {
    words! {
        /// Of a WCPCluster: the network of the nodes is realised.
        NETWORK_READY = "NetworkReady";
        /// Of a WCPMachine: the virtual machine runs and has an address.
        VIRTUAL_MACHINE_PROVISIONED = "VirtualMachineProvisioned";
        /// Nobody acts on the object.
        PAUSED = "Paused";
        /// All is as it should be.
        READY = "Ready";
        /// The virtual machine runs and has an address.
        PROVISIONED = "Provisioned";
        /// The virtual machine is being made.
        PROVISIONING = "Provisioning";
        /// The object is acted on.
        NOT_PAUSED = "NotPaused";
        /// The object is going away.
        DELETING = "Deleting";
        /// The cluster's network and endpoint are not there yet.
        WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY = "WaitingForClusterInfrastructureReady";
        /// The bootstrap data is not what a node can boot from.
        BOOTSTRAP_DATA_INVALID = "BootstrapDataInvalid";
        /// The providerID is not one of ours.
        PROVIDER_ID_INVALID = "ProviderIDInvalid";
        /// An object of this name belongs to somebody else.
        NAME_TAKEN = "NameTaken";
        /// A former object of this name is still going away.
        WAITING_FOR_FORMER_OBJECT = "WaitingForFormerObject";
        /// Cluster API has not made the Cluster the owner yet.
        WAITING_FOR_OWNER_CLUSTER = "WaitingForOwnerCluster";
    }
}

/// What a WCPCluster says of itself.
pub mod wcp_cluster {
    words! {
        /// Folder, resource pool and cluster modules are there.
        RESOURCE_POLICY_READY = "ResourcePolicyReady";
        /// The API server's virtual address is known.
        LOAD_BALANCER_READY = "LoadBalancerReady";
        /// The accounts of the guest's cloud provider and storage driver exist.
        PROVIDER_SERVICE_ACCOUNTS_READY = "ProviderServiceAccountsReady";
        /// The guest finds the Supervisor.
        SERVICE_DISCOVERY_READY = "ServiceDiscoveryReady";

        /// The resource policy could not be made.
        RESOURCE_POLICY_CREATION_FAILED = "ResourcePolicyCreationFailed";
        /// The resource policy is made and not yet realised.
        WAITING_FOR_RESOURCE_POLICY = "WaitingForResourcePolicy";
        /// The network is made and not yet realised.
        CLUSTER_NETWORK_PROVISION_STARTED = "ClusterNetworkProvisionStarted";
        /// The network could not be made or realised.
        CLUSTER_NETWORK_PROVISION_FAILED = "ClusterNetworkProvisionFailed";
        /// The load balancer's service could not be made.
        LOAD_BALANCER_CREATION_FAILED = "LoadBalancerCreationFailed";
        /// The load balancer has no address yet.
        WAITING_FOR_LOAD_BALANCER_IP = "WaitingForLoadBalancerIP";
        /// Cluster API does not say yet which port the API server takes.
        WAITING_FOR_KUBEADM_CONTROL_PLANE_SPEC_READY = "WaitingForKubeadmControlPlaneSpecReady";
        /// An account could not be made.
        PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED = "ProviderServiceAccountsReconciliationFailed";
    }
}

/// What a WCPMachine says of itself.
pub mod wcp_machine {
    words! {
        /// The cluster's network and endpoint are not there yet.
        WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure";
        /// The first control plane node is not up yet.
        WAITING_FOR_CONTROL_PLANE_INITIALIZED = "WaitingForControlPlaneInitialized";
        /// Cluster API has not made the bootstrap data yet.
        WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData";
        /// No Machine owns this WCPMachine yet.
        WAITING_FOR_OWNER_MACHINE = "WaitingForOwnerMachine";
        /// The VirtualMachine could not be made.
        VM_CREATION_FAILED = "VMCreationFailed";
        /// The VirtualMachine is being made.
        VM_PROVISION_STARTED = "VMProvisionStarted";
        /// The virtual machine is off.
        POWERING_ON = "PoweringOn";
        /// The virtual machine has no address yet.
        WAITING_FOR_NETWORK_ADDRESS = "WaitingForNetworkAddress";
        /// The virtual machine's identity is not known yet.
        WAITING_FOR_BIOS_UUID = "WaitingForBIOSUUID";
        /// The virtual machine was there and is gone.
        VM_LOST = "VMLost";
        /// The object is going away.
        DELETING = "Deleting";
    }
}

pub mod vmop;
