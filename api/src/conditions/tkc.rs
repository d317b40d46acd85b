//! What a TanzuKubernetesCluster says of itself.

constants! {
    /// The control plane is initialised and has its replicas.
    CONTROL_PLANE_READY = "ControlPlaneReady";
    /// Every node pool has its replicas.
    NODE_POOLS_READY = "NodePoolsReady";
    /// Every add-on is applied.
    ADDONS_READY = "AddonsReady";
    /// Every node is Ready.
    NODES_HEALTHY = "NodesHealthy";
    /// The accounts of the guest's cloud provider and storage driver exist, and programs in the guest use them.
    PROVIDER_SERVICE_ACCOUNTS_READY = "ProviderServiceAccountsReady";
    /// Those who may edit the namespace may administer the guest, and can log in there.
    ROLE_BINDING_SYNCED = "RoleBindingSynced";
    /// The namespace's storage classes are in the guest, and their driver runs there.
    STORAGE_CLASS_SYNCED = "StorageClassSynced";
    /// The API servers of the guest use the issuers of the spec. Only there if the spec has an issuer, or had one.
    AUTHENTICATION_READY = "AuthenticationReady";
    /// The guest finds the Supervisor.
    SERVICE_DISCOVERY_READY = "ServiceDiscoveryReady";
    /// The release fits this installation.
    TANZU_KUBERNETES_RELEASE_COMPATIBLE = "TanzuKubernetesReleaseCompatible";
    /// Newer releases can be had; the message lists them.
    UPDATES_AVAILABLE = "UpdatesAvailable";
    /// Nobody works on the cluster; only there while it is so.
    PAUSED = "Paused";
    /// Of one add-on: it is applied.
    PROVISIONED = "Provisioned";
    /// Reason of `AddonsReady` that holds: the node image contains add-ons that the cluster does not get; the message names them.
    ADDONS_LEFT_IN_IMAGE = "AddonsLeftInImage";
}

reasons! {
    /// The infrastructure of the cluster is not there yet.
    Waiting WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure";
    /// The first API server does not answer yet.
    Waiting WAITING_FOR_CONTROL_PLANE_INITIALIZED = "WaitingForControlPlaneInitialized";
    /// The control plane lacks replicas.
    Waiting WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane";
    /// All control plane nodes are gone, and all copies of etcd's data with them.
    Error CANNOT_BE_REMEDIATED = "CannotBeRemediated";
    /// How the pools are is not known.
    Info NODE_POOLS_UNKNOWN = "NodePoolsUnknown";
    /// Pools are scaling or rolling.
    Info NODE_POOLS_UPDATING = "NodePoolsUpdating";
    /// A pool cannot get its machines.
    Warning NODE_POOLS_FAILED = "NodePoolsFailed";
    /// An add-on could not be applied.
    Warning ADDONS_RECONCILIATION_FAILED = "AddonsReconciliationFailed";
    /// Some node is not Ready.
    Waiting WAITING_FOR_NODES_HEALTHY = "WaitingForNodesHealthy";
    /// So many nodes of a pool were replaced that no other is for a while.
    Warning TOO_MANY_REMEDIATIONS = "TooManyRemediations";
    /// An account could not be made.
    Warning PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED = "ProviderServiceAccountsReconciliationFailed";
    /// A role binding could not be made in the guest.
    Warning ROLE_BINDING_SYNC_FAILED = "RoleBindingSyncFailed";
    /// A storage class could not be made in the guest.
    Warning STORAGE_CLASS_SYNC_FAILED = "StorageClassSyncFailed";
    /// The cluster asks for storage, and its storage classes have no driver.
    Warning STORAGE_DRIVER_NOT_FOUND = "StorageDriverNotFound";
    /// The storage classes have no driver, and the cluster does not ask for storage.
    Info NO_STORAGE_DRIVER = "NoStorageDriver";
    /// An add-on needs an account, and no Pod uses the account's token.
    Warning PROVIDER_SERVICE_ACCOUNT_USER_NOT_FOUND = "ProviderServiceAccountUserNotFound";
    /// The accounts exist, no Pod uses their tokens, and no add-on needs them.
    Info PROVIDER_SERVICE_ACCOUNTS_UNUSED = "ProviderServiceAccountsUnused";
    /// The administrators are bound in the guest, which has no way to authenticate them.
    Info NO_AUTHENTICATOR = "NoAuthenticator";
    /// The API servers have not read the issuers yet.
    Info AUTHENTICATION_RECONCILING = "AuthenticationReconciling";
    /// API servers read no issuers before their nodes are replaced.
    Info WAITING_FOR_NEW_API_SERVERS = "WaitingForNewAPIServers";
    /// The issuers could not be brought into the guest.
    Warning AUTHENTICATION_FAILED = "AuthenticationFailed";
    /// An API server refuses the issuers, or cannot reach one.
    Warning AUTHENTICATION_REJECTED = "AuthenticationRejected";
    /// The release of the cluster cannot have issuers.
    Warning AUTHENTICATION_UNSUPPORTED = "AuthenticationUnsupported";
    /// The Supervisor's service could not be made in the guest.
    Warning SUPERVISOR_HEADLESS_SERVICE_SETUP_FAILED = "SupervisorHeadlessServiceSetupFailed";
    /// The role bindings are not in the guest yet.
    Info ROLE_BINDING_SYNCING = "RoleBindingSyncing";
    /// The storage classes are not in the guest yet.
    Info STORAGE_CLASS_SYNCING = "StorageClassSyncing";
    /// The Supervisor's service is not in the guest yet.
    Info SERVICE_DISCOVERY_RECONCILING = "ServiceDiscoveryReconciling";
    /// Some add-on is not applied yet, or does not work yet.
    Info ADDONS_RECONCILING = "AddonsReconciling";
    /// Of one add-on: it is not applied yet, or does not work yet.
    Info PROVISIONING = "Provisioning";
    /// Of one add-on: it could not be applied.
    Warning PROVISIONING_FAILED = "ProvisioningFailed";
    /// Of one add-on: it is not ours to apply.
    Info ADDON_UNMANAGED = "AddonUnManaged";
    /// What is asked for can't be made; the user must change the spec.
    Error INVALID = "Invalid";
    /// A write failed; it is tried again.
    Warning RECONCILE_FAILED = "ReconcileFailed";
    /// The object was copied from another API server, and its Cluster has not come yet.
    Waiting WAITING_FOR_CLUSTER = "WaitingForCluster";
    /// Somebody deleted the Cluster; it is made anew when it is gone.
    Warning CLUSTER_DELETED = "ClusterDeleted";
    /// The object is going away.
    Info DELETING = "Deleting";
    /// Of a part of a cluster that is to go: finalizers of strangers hold it.
    Warning DELETION_HELD = "DeletionHeld";
    /// Of a Machine: its virtual machine runs, and its node has not joined yet.
    Info WAITING_FOR_NODE = "WaitingForNode";
    /// Of a Machine: nothing has been reported of it yet.
    Waiting PENDING = "Pending";
}

/// Reasons that keep a cluster from being Ready, but not from the phase `running`: a program that the spec asks for is not installed, or
/// the API servers do not use the issuers of the spec.
pub const RUNNING_WITHOUT: [&str; 5] = [
    STORAGE_DRIVER_NOT_FOUND,
    PROVIDER_SERVICE_ACCOUNT_USER_NOT_FOUND,
    AUTHENTICATION_FAILED,
    AUTHENTICATION_REJECTED,
    AUTHENTICATION_UNSUPPORTED,
];

/// Reasons of conditions about parts that a cluster lacks and does not ask for. No cluster waits for them, and they are no cause of anything.
pub const LIMITS: [&str; 4] =
    [ADDONS_LEFT_IN_IMAGE, NO_STORAGE_DRIVER, PROVIDER_SERVICE_ACCOUNTS_UNUSED, NO_AUTHENTICATOR];
