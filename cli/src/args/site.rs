//! The command line of `site`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::Ipv4Net;

use super::shared::SiteNetworkProvider;

/// Commands for sites.
#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// Write the site file of a vCenter to standard output: the provider configuration, the addresses of control planes
    /// and a namespace, as manifests without secrets. Standard error shows what was chosen and why. Changes nothing.
    Discover(Box<SiteDiscover>),
}

/// Flags of `site discover`.
#[derive(Clone, Debug, Args)]
pub struct SiteDiscover {
    /// The FQDN or IP address of vCenter, as the VM operator is to use it.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub vcenter: String,
    /// The vCenter user that reads the inventory.
    #[arg(long, value_name = "USER")]
    pub user: String,
    /// The file with the user's password.
    #[arg(long, value_name = "FILE")]
    pub password_file: PathBuf,
    /// The SHA-256 of vCenter's certificate, as AB:CD:…. Required if the operating system does not trust the certificate.
    #[arg(long, value_name = "SHA256")]
    pub thumbprint: Option<String>,
    /// The datacenter, by name or MoID. Required if there are several.
    #[arg(long, value_name = "NAME")]
    pub datacenter: Option<String>,
    /// The resource pool for VMs, as CLUSTER, CLUSTER/POOL or MoID. Required if there are several clusters.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// The folder for VMs, by path or MoID; by default the folder layercake, or the root of VMs.
    #[arg(long, value_name = "NAME")]
    pub folder: Option<String>,
    /// The datastore, by name or MoID; by default the one with most free space that all hosts have.
    #[arg(long, value_name = "NAME")]
    pub datastore: Option<String>,
    /// The provider of networks.
    #[arg(long, value_enum, default_value_t)]
    pub network_provider: SiteNetworkProvider,
    /// The port group of nodes, by name or MoID. Required if all hosts have several.
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// A range in which DHCP assigns addresses to nodes. Can be repeated. Required with port groups.
    #[arg(long, value_name = "CIDR")]
    pub node_addresses: Vec<Ipv4Net>,
    /// Addresses for control planes, which DHCP does not assign.
    #[arg(long, value_name = "FIRST-LAST", requires_all = ["prefix", "gateway"])]
    pub endpoints: Option<String>,
    /// The prefix length of the nodes' network.
    #[arg(long, value_name = "BITS", requires = "endpoints")]
    pub prefix: Option<u8>,
    /// The router of the nodes' network.
    #[arg(long, value_name = "ADDRESS", requires = "endpoints")]
    pub gateway: Option<Ipv4Addr>,
    /// The content library with node images, by name or id. Required if there are several.
    #[arg(long, value_name = "NAME")]
    pub library: Option<String>,
    /// A namespace in which a team creates clusters.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The storage policy of the namespace, by name or id. Required if the datastore satisfies several, and none is
    /// the vSAN Default Storage Policy.
    #[arg(long, value_name = "NAME", requires = "namespace")]
    pub storage_policy: Option<String>,
    /// A VM class that the namespace can use. Can be repeated.
    #[arg(long = "vm-class", value_name = "NAME", default_value = "best-effort-small")]
    pub vm_classes: Vec<String>,
    /// Also show the govc and PowerCLI commands that give this vCenter user the role that Layercake needs, on the chosen
    /// objects only.
    #[arg(long, value_name = "USER")]
    pub roles_for: Option<String>,
}
