//! Condition types and reasons for TanzuKubernetesClusters.

constants! {
    /// The control plane is initialized and has all replicas.
    CONTROL_PLANE_READY = "ControlPlaneReady";
    /// Every node pool has all replicas.
    NODE_POOLS_READY = "NodePoolsReady";
    /// Every add-on is applied.
    ADDONS_READY = "AddonsReady";
    /// Every node is Ready.
    NODES_HEALTHY = "NodesHealthy";
    /// The accounts of the cloud provider and the storage driver exist in the workload cluster, and programs there use
    /// them.
    PROVIDER_SERVICE_ACCOUNTS_READY = "ProviderServiceAccountsReady";
    /// Users who can edit the namespace are administrators of the workload cluster and can log in to it.
    ROLE_BINDING_SYNCED = "RoleBindingSynced";
    /// The namespace's storage classes exist in the workload cluster, and their driver is running there.
    STORAGE_CLASS_SYNCED = "StorageClassSynced";
    /// The API servers use the issuers in the spec. Only set if the spec has issuers or had some before.
    AUTHENTICATION_READY = "AuthenticationReady";
    /// Programs in the workload cluster can find the Supervisor.
    SERVICE_DISCOVERY_READY = "ServiceDiscoveryReady";
    /// The release is compatible with this installation.
    TANZU_KUBERNETES_RELEASE_COMPATIBLE = "TanzuKubernetesReleaseCompatible";
    /// Newer releases are available. The message lists them.
    UPDATES_AVAILABLE = "UpdatesAvailable";
    /// The cluster is paused. Only set during the pause.
    PAUSED = "Paused";
    /// For one add-on: it is applied.
    PROVISIONED = "Provisioned";
    /// A reason of a true `AddonsReady`: the node image contains add-ons that the cluster doesn't get. The message
    /// lists them.
    ADDONS_LEFT_IN_IMAGE = "AddonsLeftInImage";
}

reasons! {
    /// The cluster infrastructure isn't ready yet.
    Waiting WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure";
    /// The first API server doesn't respond yet.
    Waiting WAITING_FOR_CONTROL_PLANE_INITIALIZED = "WaitingForControlPlaneInitialized";
    /// The control plane doesn't have all replicas.
    Waiting WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane";
    /// All control plane nodes are lost, and all copies of the etcd data with them.
    Error CANNOT_BE_REMEDIATED = "CannotBeRemediated";
    /// The state of the node pools isn't known.
    Info NODE_POOLS_UNKNOWN = "NodePoolsUnknown";
    /// Node pools are being scaled or rolled out.
    Info NODE_POOLS_UPDATING = "NodePoolsUpdating";
    /// A node pool can't create its machines.
    Warning NODE_POOLS_FAILED = "NodePoolsFailed";
    /// An add-on couldn't be applied.
    Warning ADDONS_RECONCILIATION_FAILED = "AddonsReconciliationFailed";
    /// A node isn't Ready.
    Waiting WAITING_FOR_NODES_HEALTHY = "WaitingForNodesHealthy";
    /// Remediation of a node pool is suspended because too many nodes were replaced.
    Warning TOO_MANY_REMEDIATIONS = "TooManyRemediations";
    /// An account couldn't be created.
    Warning PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED = "ProviderServiceAccountsReconciliationFailed";
    /// A role binding couldn't be created in the workload cluster.
    Warning ROLE_BINDING_SYNC_FAILED = "RoleBindingSyncFailed";
    /// A storage class couldn't be created in the workload cluster.
    Warning STORAGE_CLASS_SYNC_FAILED = "StorageClassSyncFailed";
    /// The cluster requires storage, but doesn't have a driver for its storage classes.
    Warning STORAGE_DRIVER_NOT_FOUND = "StorageDriverNotFound";
    /// The storage classes don't have a driver, and the cluster doesn't require storage.
    Info NO_STORAGE_DRIVER = "NoStorageDriver";
    /// An add-on requires an account, but no Pod uses the account's token.
    Warning PROVIDER_SERVICE_ACCOUNT_USER_NOT_FOUND = "ProviderServiceAccountUserNotFound";
    /// The accounts exist, but no Pod uses their tokens, and no add-on requires them.
    Info PROVIDER_SERVICE_ACCOUNTS_UNUSED = "ProviderServiceAccountsUnused";
    /// The role bindings of the administrators exist, but the workload cluster can't authenticate these users.
    Info NO_AUTHENTICATOR = "NoAuthenticator";
    /// The API servers haven't read the issuers yet.
    Info AUTHENTICATION_RECONCILING = "AuthenticationReconciling";
    /// The issuers couldn't be applied in the workload cluster.
    Warning AUTHENTICATION_FAILED = "AuthenticationFailed";
    /// An API server rejects the issuers or can't reach one of them.
    Warning AUTHENTICATION_REJECTED = "AuthenticationRejected";
    /// The release doesn't support issuers.
    Warning AUTHENTICATION_UNSUPPORTED = "AuthenticationUnsupported";
    /// The Supervisor's Service couldn't be created in the workload cluster.
    Warning SUPERVISOR_HEADLESS_SERVICE_SETUP_FAILED = "SupervisorHeadlessServiceSetupFailed";
    /// The role bindings don't exist in the workload cluster yet.
    Info ROLE_BINDING_SYNCING = "RoleBindingSyncing";
    /// The storage classes don't exist in the workload cluster yet.
    Info STORAGE_CLASS_SYNCING = "StorageClassSyncing";
    /// The Supervisor's Service doesn't exist in the workload cluster yet.
    Info SERVICE_DISCOVERY_RECONCILING = "ServiceDiscoveryReconciling";
    /// An add-on isn't applied or doesn't work yet.
    Info ADDONS_RECONCILING = "AddonsReconciling";
    /// For one add-on: it isn't applied or doesn't work yet.
    Info PROVISIONING = "Provisioning";
    /// For one add-on: it couldn't be applied.
    Warning PROVISIONING_FAILED = "ProvisioningFailed";
    /// For one add-on: gcm doesn't manage it.
    Info ADDON_UNMANAGED = "AddonUnManaged";
    /// The spec can't be applied. The user must change it.
    Error INVALID = "Invalid";
    /// A write has failed. gcm retries it.
    Warning RECONCILE_FAILED = "ReconcileFailed";
    /// The object was copied from another API server, and its Cluster doesn't exist yet.
    Waiting WAITING_FOR_CLUSTER = "WaitingForCluster";
    /// A user deleted the Cluster. gcm creates it again after the deletion.
    Warning CLUSTER_DELETED = "ClusterDeleted";
    /// The object is being deleted.
    Info DELETING = "Deleting";
    /// On an object in a cluster that is being deleted: finalizers of other programs block the object's deletion.
    Warning DELETION_HELD = "DeletionHeld";
    /// On a Machine: its virtual machine is running, but its node hasn't joined the cluster yet.
    Info WAITING_FOR_NODE = "WaitingForNode";
}

/// Reasons for which a cluster isn't Ready although its phase is `running`: a program that the spec requires isn't
/// installed, or the API servers don't use the issuers in the spec.
pub const RUNNING_WITHOUT: [&str; 5] = [
    STORAGE_DRIVER_NOT_FOUND,
    PROVIDER_SERVICE_ACCOUNT_USER_NOT_FOUND,
    AUTHENTICATION_FAILED,
    AUTHENTICATION_REJECTED,
    AUTHENTICATION_UNSUPPORTED,
];

/// Reasons about optional parts that a cluster doesn't have and doesn't require. Clusters don't wait for them, and they
/// are never a cause.
pub const LIMITS: [&str; 4] =
    [ADDONS_LEFT_IN_IMAGE, NO_STORAGE_DRIVER, PROVIDER_SERVICE_ACCOUNTS_UNUSED, NO_AUTHENTICATOR];
