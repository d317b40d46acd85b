//! Flags: what holds the addresses of new control planes.

use clap::{Args, ValueEnum};

/// What holds the address on the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VirtualIpKind {
    /// Nothing: a load balancer has the address.
    None,
    /// keepalived, by VRRP; needs no access to the cluster.
    #[default]
    Keepalived,
    /// kube-vip, by ARP and a lease in the cluster.
    KubeVip,
}

/// What holds the addresses of new control planes.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualIpFlags {
    /// What holds the address of a control plane on its nodes: needed where capw gives clusters virtual IPs.
    #[arg(long, value_enum, default_value_t, overrides_with = "virtual_ip")]
    pub virtual_ip: VirtualIpKind,
    /// The image of that; by default layercake's own keepalived, which its node images have, or kube-vip's from ghcr.io.
    #[arg(long, value_name = "IMAGE", overrides_with = "virtual_ip_image")]
    pub virtual_ip_image: Option<String>,
}
