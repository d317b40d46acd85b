//! The flags for `site`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::Ipv4Net;

use sim::further_release::FurtherRelease;

use super::shared::{NodeKind, SiteNetworkProvider};

/// Commands for sites.
#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// Write the site file of a vCenter to standard output: the provider configuration, the addresses of control planes
    /// and a namespace, as manifests without secrets. Standard error shows what was chosen and why. Changes nothing.
    Discover(Box<SiteDiscover>),
    /// Start a simulated vSphere in the background, and write its site file to standard output. Standard error shows
    /// its password file. If it is already running, only writes the site file.
    Simulate(SiteSimulate),
    /// Stop the simulated vSphere. Its VMs are gone then.
    Stop,
    /// Run the simulated vSphere in this process.
    #[command(hide = true)]
    Serve(SiteSimulate),
}

/// Flags of `site simulate`.
#[derive(Clone, Debug, Args)]
pub struct SiteSimulate {
    /// The namespace of the site file, in which a team creates clusters.
    #[arg(long, value_name = "NAME", default_value = "dev")]
    pub namespace: String,
    /// A VM class that the namespace can use. Can be repeated.
    #[arg(long = "vm-class", value_name = "NAME", default_value = "best-effort-small")]
    pub vm_classes: Vec<String>,
    /// The contents of the VMs.
    #[command(flatten)]
    pub vms: SimulatedVms,
}

/// Flags for the VMs of a simulated vSphere.
#[derive(Clone, Debug, Args)]
pub struct SimulatedVms {
    /// The contents of the VMs of the simulated vSphere.
    #[arg(long, value_enum, default_value_t)]
    pub nodes: NodeKind,
    /// A node image for `--nodes qemu`: the OVA that `image build` wrote, with its other files in the same folder. Can
    /// be repeated.
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// An additional release for the simulated library, e.g. `v1.29.4+vmware.3-tkg.1`. Can be repeated.
    #[arg(long = "release", value_name = "VERSION")]
    pub releases: Vec<FurtherRelease>,
}

/// Flags of `site discover`.
#[derive(Clone, Debug, Args)]
pub struct SiteDiscover {
    /// The FQDN or IP address of vCenter, as the VM operator should use it.
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
