//! Condition types and reasons for WCPClusters.

constants! {
    /// The folder, resource pool and cluster modules exist.
    RESOURCE_POLICY_READY = "ResourcePolicyReady";
    /// The virtual address of the API server is known.
    LOAD_BALANCER_READY = "LoadBalancerReady";
    /// The accounts of the cloud provider and the storage driver exist.
    PROVIDER_SERVICE_ACCOUNTS_READY = "ProviderServiceAccountsReady";
}

reasons! {
    /// The resource policy couldn't be created.
    Warning RESOURCE_POLICY_CREATION_FAILED = "ResourcePolicyCreationFailed";
    /// The resource policy exists but isn't realized yet.
    Waiting WAITING_FOR_RESOURCE_POLICY = "WaitingForResourcePolicy";
    /// The network exists but isn't realized yet.
    Info CLUSTER_NETWORK_PROVISION_STARTED = "ClusterNetworkProvisionStarted";
    /// The network couldn't be created or realized.
    Warning CLUSTER_NETWORK_PROVISION_FAILED = "ClusterNetworkProvisionFailed";
    /// The load balancer's service couldn't be created.
    Warning LOAD_BALANCER_CREATION_FAILED = "LoadBalancerCreationFailed";
    /// The load balancer doesn't have an address yet.
    Info WAITING_FOR_LOAD_BALANCER_IP = "WaitingForLoadBalancerIP";
    /// The IPAddressClaim for the control plane couldn't be created.
    Warning IP_ADDRESS_CLAIM_CREATION_FAILED = "IPAddressClaimCreationFailed";
    /// The IPAM provider has assigned an invalid control plane address.
    Warning IP_ADDRESS_INVALID = "IPAddressInvalid";
    /// VM Operator hasn't checked yet whether a VM in vCenter uses the control plane address.
    Info WAITING_FOR_ENDPOINT_LOOKUP = "WaitingForEndpointLookup";
    /// Another machine already uses the control plane address, although the cluster doesn't have a node yet.
    Warning ENDPOINT_IN_USE = "EndpointInUse";
    /// The IPAddressClaim for the control plane exists, but the IPAM provider hasn't assigned an address yet.
    Info WAITING_FOR_IP_ADDRESS = "WaitingForIPAddress";
    /// The cluster doesn't have an endpoint, and there isn't an address pool to allocate one.
    Warning CONTROL_PLANE_ENDPOINT_MISSING = "ControlPlaneEndpointMissing";
    /// An account doesn't exist in the workload cluster yet, or its state isn't known.
    Info PROVIDER_SERVICE_ACCOUNTS_RECONCILING = "ProviderServiceAccountsReconciling";
    /// An account couldn't be created.
    Warning PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED = "ProviderServiceAccountsReconciliationFailed";
}
