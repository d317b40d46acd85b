//! Condition types and reasons of Cluster API's v1beta2 contract that the older words of `api` lack.

/// Of a WCPCluster: the network of the nodes is realised.
pub const NETWORK_READY: &str = "NetworkReady";
/// Of a WCPMachine: the virtual machine runs and has an address.
pub const VIRTUAL_MACHINE_PROVISIONED: &str = "VirtualMachineProvisioned";
/// Nobody acts on the object.
pub const PAUSED: &str = "Paused";

/// All is as it should be.
pub const READY: &str = "Ready";
/// The virtual machine runs and has an address.
pub const PROVISIONED: &str = "Provisioned";
/// The virtual machine is being made.
pub const PROVISIONING: &str = "Provisioning";
/// The object is acted on.
pub const NOT_PAUSED: &str = "NotPaused";
/// The object is going away.
pub const DELETING: &str = "Deleting";
/// The cluster's network and endpoint are not there yet.
pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";
/// The bootstrap data is not what a node can boot from.
pub const BOOTSTRAP_DATA_INVALID: &str = "BootstrapDataInvalid";
/// The providerID is not one of ours.
pub const PROVIDER_ID_INVALID: &str = "ProviderIDInvalid";
/// An object of this name belongs to somebody else.
pub const NAME_TAKEN: &str = "NameTaken";
/// A former object of this name is still going away.
pub const WAITING_FOR_FORMER_OBJECT: &str = "WaitingForFormerObject";
/// Cluster API has not made the Cluster the owner yet.
pub const WAITING_FOR_OWNER_CLUSTER: &str = "WaitingForOwnerCluster";
