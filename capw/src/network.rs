//! Flags for machine networks and API server endpoints.

use std::str::FromStr;

use clap::{Args, ValueEnum};

/// The network provider of machines. The values are the same as for the VM operator's `NetworkProvider`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NetworkProvider {
    /// None: machines are on the port group that the VM operator is configured with.
    #[default]
    #[value(name = "NAMED")]
    Named,
    /// net-operator: machines are on the default network of their namespace.
    #[value(name = "VSPHERE_NETWORK")]
    Distributed,
    /// NSX: every cluster has a VirtualNetwork of its own.
    #[value(name = "NSXT")]
    Nsx,
}

/// The provider of the control plane endpoint for clusters that don't set an endpoint in their spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointProvider {
    /// A load balancer for the cluster's VirtualMachineService.
    LoadBalancer,
    /// An address that the control plane nodes announce themselves.
    VirtualIp,
}

/// An IPAM pool, written `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolReference {
    /// The kind, such as `InClusterIPPool`.
    pub kind: String,
    /// The pool name. A namespaced pool is in the cluster's namespace.
    pub name: String,
}

impl FromStr for PoolReference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("{text:?} is not KIND/NAME, such as GlobalInClusterIPPool/control-planes")),
        }
    }
}

/// The network settings of an installation's clusters.
///
/// Changes apply only to new clusters. An existing cluster keeps the settings that it was created with.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFlags {
    /// The network provider of machines: none (the port group that the VM operator is configured with), net-operator,
    /// or NSX.
    #[arg(long, value_enum, default_value_t, overrides_with = "network_provider")]
    pub network_provider: NetworkProvider,
    /// The endpoint provider for clusters that don't set an endpoint in their spec. Default: a load balancer with NSX, otherwise
    /// a virtual IP on the control plane nodes.
    #[arg(long, value_enum, overrides_with = "endpoint_provider")]
    pub endpoint_provider: Option<EndpointProvider>,
    /// The pool for virtual IPs, in the API group ipam.cluster.x-k8s.io: InClusterIPPool/NAME for the pool with this name in the
    /// cluster's namespace, or GlobalInClusterIPPool/NAME for one pool for all namespaces.
    #[arg(long, value_name = "KIND/NAME", overrides_with = "endpoint_pool")]
    pub endpoint_pool: Option<PoolReference>,
}

impl NetworkFlags {
    /// Returns the endpoint provider: the flag, or the default for the network provider.
    pub fn endpoint_provider(&self) -> EndpointProvider {
        self.endpoint_provider.unwrap_or(match self.network_provider {
            NetworkProvider::Nsx => EndpointProvider::LoadBalancer,
            NetworkProvider::Named | NetworkProvider::Distributed => EndpointProvider::VirtualIp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_kind_and_name() {
        let pool = PoolReference { kind: "InClusterIPPool".into(), name: "vips".into() };
        assert_eq!("InClusterIPPool/vips".parse(), Ok(pool));
        for wrong in ["", "vips", "/vips", "InClusterIPPool/", "a/b/c"] {
            assert!(wrong.parse::<PoolReference>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nsx_has_load_balancers_and_others_virtual_addresses() {
        let of = |network_provider, endpoint_provider| {
            NetworkFlags { network_provider, endpoint_provider, endpoint_pool: None }.endpoint_provider()
        };
        assert_eq!(of(NetworkProvider::Nsx, None), EndpointProvider::LoadBalancer);
        assert_eq!(of(NetworkProvider::Named, None), EndpointProvider::VirtualIp);
        let balanced = Some(EndpointProvider::LoadBalancer);
        assert_eq!(of(NetworkProvider::Distributed, balanced), EndpointProvider::LoadBalancer);
    }
}
