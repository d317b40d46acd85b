//! What a WCPCluster says of itself.

constants! {
    /// Folder, resource pool and cluster modules are there.
    RESOURCE_POLICY_READY = "ResourcePolicyReady";
    /// The API server's virtual address is known.
    LOAD_BALANCER_READY = "LoadBalancerReady";
    /// The accounts of the guest's cloud provider and storage driver exist.
    PROVIDER_SERVICE_ACCOUNTS_READY = "ProviderServiceAccountsReady";
}

reasons! {
    /// The resource policy could not be made.
    Warning RESOURCE_POLICY_CREATION_FAILED = "ResourcePolicyCreationFailed";
    /// The resource policy is made and not yet realised.
    Waiting WAITING_FOR_RESOURCE_POLICY = "WaitingForResourcePolicy";
    /// The network is made and not yet realised.
    Info CLUSTER_NETWORK_PROVISION_STARTED = "ClusterNetworkProvisionStarted";
    /// The network could not be made or realised.
    Warning CLUSTER_NETWORK_PROVISION_FAILED = "ClusterNetworkProvisionFailed";
    /// The load balancer's service could not be made.
    Warning LOAD_BALANCER_CREATION_FAILED = "LoadBalancerCreationFailed";
    /// The load balancer has no address yet.
    Info WAITING_FOR_LOAD_BALANCER_IP = "WaitingForLoadBalancerIP";
    /// The claim of the control plane's address could not be made.
    Warning IP_ADDRESS_CLAIM_CREATION_FAILED = "IPAddressClaimCreationFailed";
    /// The address of the control plane that an IPAM provider gave is none.
    Warning IP_ADDRESS_INVALID = "IPAddressInvalid";
    /// VM Operator has not looked up yet whether a VM in vCenter has the control plane's address.
    Info WAITING_FOR_ENDPOINT_LOOKUP = "WaitingForEndpointLookup";
    /// Another machine has the control plane's address before the cluster has a node.
    Warning ENDPOINT_IN_USE = "EndpointInUse";
    /// The control plane's address is claimed, and no IPAM provider has given one yet.
    Info WAITING_FOR_IP_ADDRESS = "WaitingForIPAddress";
    /// Nobody gave the cluster an endpoint, and there is no pool to take one from.
    Warning CONTROL_PLANE_ENDPOINT_MISSING = "ControlPlaneEndpointMissing";
    /// An account is not in the guest yet, or nobody knows whether it is.
    Info PROVIDER_SERVICE_ACCOUNTS_RECONCILING = "ProviderServiceAccountsReconciling";
    /// An account could not be made.
    Warning PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED = "ProviderServiceAccountsReconciliationFailed";
}
