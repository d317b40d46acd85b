//! Condition types and reasons that both WCP kinds share, with the names of Cluster API's v1beta2 contract.

constants! {
    /// On a WCPCluster: the node network is realized.
    NETWORK_READY = "NetworkReady";
    /// On a WCPMachine: the virtual machine is running and has an address.
    VIRTUAL_MACHINE_PROVISIONED = "VirtualMachineProvisioned";
}

// Reasons for true conditions. They are never a cause.
constants! {
    /// The object is ready.
    READY = "Ready";
    /// The virtual machine is running and has an address.
    PROVISIONED = "Provisioned";
    /// The object isn't paused, so capw reconciles it.
    NOT_PAUSED = "NotPaused";
}

reasons! {
    /// The object is paused.
    Info PAUSED = "Paused";
    /// The virtual machine is being created.
    Info PROVISIONING = "Provisioning";
    /// The object is being deleted.
    Info DELETING = "Deleting";
    /// The cluster's network and endpoint aren't ready yet.
    Waiting WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY = "WaitingForClusterInfrastructureReady";
    /// A node can't boot from the bootstrap data.
    Error BOOTSTRAP_DATA_INVALID = "BootstrapDataInvalid";
    /// The providerID doesn't belong to this provider.
    Error PROVIDER_ID_INVALID = "ProviderIDInvalid";
    /// An object that belongs to another owner has this name.
    Error NAME_TAKEN = "NameTaken";
    /// The resource policy and all WCPMachines of a running cluster are missing, as after an interrupted `clusterctl move`.
    Error MOVED_AWAY = "MovedAway";
    /// An earlier object with this name is still being deleted.
    Waiting WAITING_FOR_FORMER_OBJECT = "WaitingForFormerObject";
    /// Cluster API hasn't set the Cluster as owner yet.
    Waiting WAITING_FOR_OWNER_CLUSTER = "WaitingForOwnerCluster";
    /// The API server has rejected a write or hasn't responded. capw retries it.
    Warning INTERNAL_ERROR = "InternalError";
}
