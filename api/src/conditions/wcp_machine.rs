//! Condition reasons of WCPMachines.

reasons! {
    /// Cluster API hasn't created the bootstrap data yet.
    Waiting WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData";
    /// The WCPMachine doesn't have an owner Machine yet.
    Waiting WAITING_FOR_OWNER_MACHINE = "WaitingForOwnerMachine";
    /// The VirtualMachine couldn't be created.
    Warning VM_CREATION_FAILED = "VMCreationFailed";
    /// The name template doesn't produce a valid name.
    Error VM_NAME_INVALID = "VMNameInvalid";
    /// The virtual machine isn't powered on yet.
    Info POWERING_ON = "PoweringOn";
    /// The virtual machine doesn't have an address yet.
    Info WAITING_FOR_NETWORK_ADDRESS = "WaitingForNetworkAddress";
    /// The virtual machine's BIOS UUID isn't known yet.
    Info WAITING_FOR_BIOS_UUID = "WaitingForBIOSUUID";
    /// The guest's first boot is complete, but the management cluster can't reach the workload
    /// cluster's API server.
    Info NODE_NOT_REACHED = "NodeNotReached";
    /// The VirtualMachine was created earlier, but it no longer exists.
    Error VM_LOST = "VMLost";
    /// The object is being deleted.
    Info DELETING = "Deleting";
}
