//! Flags: what holds the addresses of new control planes.

use clap::{Args, ValueEnum};

/// The program that announces the address on the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VirtualIpKind {
    /// None: a load balancer has the address.
    None,
    /// keepalived, by VRRP; needs no access to the cluster.
    #[default]
    Keepalived,
    /// kube-vip, by ARP and a lease in the cluster.
    KubeVip,
}

/// The program that announces the addresses of new control planes.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualIpFlags {
    /// The program that announces the address of a control plane on its nodes. Required if capw gives clusters virtual
    /// IPs.
    #[arg(long, value_enum, default_value_t, overrides_with = "virtual_ip")]
    pub virtual_ip: VirtualIpKind,
    /// The image of this program; by default Layercake's own keepalived, which its node images contain, or kube-vip
    /// from ghcr.io.
    #[arg(long, value_name = "IMAGE", overrides_with = "virtual_ip_image")]
    pub virtual_ip_image: Option<String>,
}
