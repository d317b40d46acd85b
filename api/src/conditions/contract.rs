//! The words of Cluster API's v1beta2 contract, and what goes with them, that both WCP kinds share.

constants! {
    /// Of a WCPCluster: the network of the nodes is realised.
    NETWORK_READY = "NetworkReady";
    /// Of a WCPMachine: the virtual machine runs and has an address.
    VIRTUAL_MACHINE_PROVISIONED = "VirtualMachineProvisioned";
}

// Reasons of what is as it should be: never a cause.
constants! {
    /// All is as it should be.
    READY = "Ready";
    /// The virtual machine is running and has an address.
    PROVISIONED = "Provisioned";
    /// The object is acted on.
    NOT_PAUSED = "NotPaused";
}

reasons! {
    /// Nobody acts on the object.
    Info PAUSED = "Paused";
    /// The virtual machine is being made.
    Info PROVISIONING = "Provisioning";
    /// The object is going away.
    Info DELETING = "Deleting";
    /// The cluster's network and endpoint are not there yet.
    Waiting WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY = "WaitingForClusterInfrastructureReady";
    /// The bootstrap data is not what a node can boot from.
    Error BOOTSTRAP_DATA_INVALID = "BootstrapDataInvalid";
    /// The providerID is not one of ours.
    Error PROVIDER_ID_INVALID = "ProviderIDInvalid";
    /// An object of this name belongs to somebody else.
    Error NAME_TAKEN = "NameTaken";
    /// The parts of a running cluster are gone, as after an interrupted move.
    Error MOVED_AWAY = "MovedAway";
    /// A former object of this name is still going away.
    Waiting WAITING_FOR_FORMER_OBJECT = "WaitingForFormerObject";
    /// Cluster API has not made the Cluster the owner yet.
    Waiting WAITING_FOR_OWNER_CLUSTER = "WaitingForOwnerCluster";
    /// The API server refused a write, or did not answer; it is tried again.
    Warning INTERNAL_ERROR = "InternalError";
}
