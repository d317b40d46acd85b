//! What a WCPMachine says of itself.

reasons! {
    /// Cluster API has not made the bootstrap data yet.
    Waiting WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData";
    /// No Machine owns this WCPMachine yet.
    Waiting WAITING_FOR_OWNER_MACHINE = "WaitingForOwnerMachine";
    /// The VirtualMachine could not be made.
    Warning VM_CREATION_FAILED = "VMCreationFailed";
    /// The template of its name makes none.
    Error VM_NAME_INVALID = "VMNameInvalid";
    /// The virtual machine is off.
    Info POWERING_ON = "PoweringOn";
    /// The virtual machine has no address yet.
    Info WAITING_FOR_NETWORK_ADDRESS = "WaitingForNetworkAddress";
    /// The virtual machine's identity is not known yet.
    Info WAITING_FOR_BIOS_UUID = "WaitingForBIOSUUID";
    /// The guest's first boot is done, and nothing reaches its API server from here.
    Info NODE_NOT_REACHED = "NodeNotReached";
    /// The virtual machine was there and is gone.
    Error VM_LOST = "VMLost";
    /// The object is going away.
    Info DELETING = "Deleting";
}
