//! The command line definition.

mod bootstrap;
mod clusters;
pub mod completion;
mod convert;
pub mod examples;
mod image;
mod init;
mod moving;
mod new;
mod shared;
mod site;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use sim::further_release::FurtherRelease;

pub use bootstrap::{BootstrapCommand, BootstrapStart};
pub use clusters::{
    Apply, ApplyFlags, ChangeFlags, CheckedChangeFlags, Delete, DryRun, List, Render, Scale, Upgrade,
    WaitFlags,
};
pub use convert::Convert;
pub use image::{ImageBuild, ImageCommand, ImageImport};
pub use init::{CredentialFlags, Init, InitCommand, ManifestsFlags, RegistryFlags, Uninstall};
pub use moving::Move;
pub use new::{NewCluster, NewCommand};
use shared::duration;
pub use shared::{ClusterFlags, NodeKind, OperatorFlags, Output, SiteNetworkProvider, TargetFlags};
pub use site::{SimulatedVms, SiteCommand, SiteDiscover, SiteSimulate};

/// Kubernetes clusters made of vSphere virtual machines, from TanzuKubernetesCluster manifests.
#[derive(Debug, Parser)]
#[command(name = "layercake", version, about, max_term_width = 110)]
pub struct Cli {
    /// The level of the diagnostics on standard error: 0 for warnings, from 1 on information, from 4 on debug messages,
    /// from 6 on also every request to API servers and vCenter, without headers and bodies.
    #[arg(short, long, global = true, value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Start a complete stack on this machine: a control plane, Cluster API, Layercake's controllers, and a simulated
    /// vSphere.
    Up(Up),
    /// Stop the stack that `up --detach` left running.
    Down,
    /// Show why a cluster is not Running: the tree from TanzuKubernetesCluster to vSphere VM, with the blocking cause
    /// on top.
    Describe {
        /// The object to describe.
        #[command(subcommand)]
        object: Describe,
    },
    /// Show the serial console of a node of `up --nodes qemu`: kernel, cloud-init, kubeadm.
    Console(Console),
    /// Check for problems that prevent VMs and clusters from being created: configuration, vCenter, privileges,
    /// library, storage, network, Kubernetes, Cluster API, manifests. Changes nothing. Exit status 1 for an error.
    Doctor(Doctor),
    /// Collect the information that support needs to diagnose a cluster or VM: objects, events, logs and checks, in
    /// one file, without secrets. Changes nothing.
    Bundle(BundleFlags),
    /// Check manifests without a cluster. Exit status 1 if a manifest has an error.
    Lint {
        /// Manifests; `-` is standard input.
        #[arg(required_unless_present = "filename")]
        manifests: Vec<PathBuf>,
        /// More manifests. Other commands have the same flag.
        #[arg(short, long, value_name = "MANIFEST")]
        filename: Vec<PathBuf>,
    },
    /// Describe a vCenter in a site file, or simulate one.
    Site {
        /// The `site` subcommand.
        #[command(subcommand)]
        command: SiteCommand,
    },
    /// Management clusters on this machine, for those who have no Kubernetes cluster.
    Bootstrap {
        /// The `bootstrap` subcommand.
        #[command(subcommand)]
        command: BootstrapCommand,
    },
    /// Install or upgrade Cluster API and the controllers of Layercake on a Kubernetes cluster. Refuses with the reason before
    /// it writes anything. Run it again after an interruption.
    Init(Box<Init>),
    /// Print the manifests that `init` would apply. By default, they need a cluster with cert-manager.
    Manifests(ManifestsFlags),
    /// Delete what `init` has installed, if no cluster and no VM is left.
    Uninstall(Uninstall),
    /// Apply manifests, and show the progress of their clusters until they run. If the manifests have only clusters,
    /// the API server checks all of them before the first is applied.
    Apply(Box<Apply>),
    /// Change the number of nodes of a node pool or of the control plane, and show the progress.
    Scale(Box<Scale>),
    /// Change the release of a cluster, and show the progress.
    Upgrade(Box<Upgrade>),
    /// Delete a cluster with all its VMs, and show what is left until it is gone.
    Delete(Delete),
    /// List clusters with their phase, nodes and version.
    List(List),
    /// Move clusters to another management cluster of the same vCenter. Their VMs and API servers are not touched. Run it again
    /// after an interruption.
    Move(Box<Move>),
    /// Print the kubeconfig of a cluster, or add it to your own.
    Kubeconfig(Kubeconfig),
    /// Write manifests.
    New {
        /// The kind of object to write.
        #[command(subcommand)]
        command: NewCommand,
    },
    /// Write a TanzuKubernetesCluster manifest from a cluster configuration file of Tanzu Kubernetes Grid to standard
    /// output. Standard error shows the outcome for each variable. Does not connect to a cluster, except to apply the
    /// manifest with `--apply`.
    Convert(Box<Convert>),
    /// Show the objects that gcm would create for a TanzuKubernetesCluster, or that it keeps for an existing one.
    /// Changes nothing.
    Render(Render),
    /// Print the versions of this command and of what it installs.
    Version {
        /// The output format.
        #[arg(short, long, value_enum)]
        output: Option<Output>,
    },
    /// Print a script with which a shell completes the command line, e.g. for `source <(layercake completion bash)`.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Build and import node images.
    Image {
        /// The `image` subcommand.
        #[command(subcommand)]
        command: ImageCommand,
    },
}

/// Flags of `up`.
#[derive(Clone, Debug, Args)]
pub struct Up {
    /// Manifests to apply and follow until every cluster in them is Running; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub manifests: Vec<PathBuf>,
    /// Stop the stack afterwards.
    #[arg(long)]
    pub once: bool,
    /// Leave the stack running in the background; `layercake down` stops it.
    #[arg(long, conflicts_with = "once")]
    pub detach: bool,
    /// The time to wait for the clusters; by default 15m, with `--nodes qemu` 1h.
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// The format of a report on standard output at the end.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// The protocol between the VM operator and vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: VimProtocol,
    /// The network of the simulated vSphere.
    #[arg(long, value_enum, default_value_t)]
    pub network: SiteNetwork,
    /// The registries of container images, as simulated nodes see them.
    #[arg(long, value_enum, default_value_t)]
    pub registry: RegistryAccess,
    /// The contents of the VMs of the simulated vSphere.
    #[arg(long, value_enum, default_value_t)]
    pub nodes: NodeKind,
    /// A node image for `--nodes qemu`: the OVA that `image build` wrote, with its other files in the same folder. Can
    /// be repeated.
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// An additional release for the simulated library, e.g. `v1.29.4+vmware.3-tkg.1`. Can be repeated. Releases that
    /// the manifests name are added automatically.
    #[arg(long = "release", value_name = "VERSION")]
    pub releases: Vec<FurtherRelease>,
    /// A program to use instead of a built one, e.g. `etcd=/usr/bin/etcd`.
    #[arg(long = "tool", value_name = "NAME=PATH", value_parser = tool)]
    pub tools: Vec<(String, PathBuf)>,
    /// Run as the stack that another `up` leaves in the background.
    #[arg(long, hide = true)]
    pub background: bool,
}

impl Up {
    /// Returns the flags for the simulated vSphere's VMs.
    pub fn vms(&self) -> SimulatedVms {
        let (images, releases) = (self.images.clone(), self.releases.clone());
        SimulatedVms { nodes: self.nodes, images, releases }
    }
}

/// Protocols of vCenter's VIM API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VimProtocol {
    /// The best one that vCenter supports.
    #[default]
    Auto,
    /// JSON, from vCenter 8.0 U1 on.
    #[value(name = "vijson")]
    ViJson,
    /// SOAP, which every vCenter supports.
    Soap,
}

impl VimProtocol {
    /// Returns the protocol's name in the VM operator's provider configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ViJson => "vijson",
            Self::Soap => "soap",
        }
    }
}

/// The network of a simulated vSphere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SiteNetwork {
    /// NSX: every cluster has a network and a load balancer of its own.
    Nsx,
    /// Port groups: control plane nodes announce their cluster's address themselves.
    #[default]
    PortGroups,
}

/// The reachability of container registries from simulated nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RegistryAccess {
    /// Nodes can pull public images, such as flannel and kube-vip.
    #[default]
    Reachable,
    /// Nodes can't reach a registry, and only have the container images in their node image.
    Unreachable,
}

/// Flags of `kubeconfig`.
#[derive(Clone, Debug, Args)]
pub struct Kubeconfig {
    /// The name of the cluster.
    pub name: String,
    /// Add context NAME-admin@NAME to the kubeconfig file that kubectl would change. Other entries and the current context stay.
    #[arg(long)]
    pub merge: bool,
    /// Write to this file, which only you can read.
    #[arg(long, value_name = "FILE", conflicts_with = "merge")]
    pub output_file: Option<PathBuf>,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}

/// Flags of `console`.
#[derive(Clone, Debug, Args)]
pub struct Console {
    /// The name of the node, which is the name of its VirtualMachine.
    pub name: String,
    /// Continue with new output, until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
    /// The cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}

/// Flags of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct Doctor {
    /// Manifests to check as well.
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub manifests: Vec<PathBuf>,
    /// The VM operator.
    #[command(flatten)]
    pub operator: OperatorFlags,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: DoctorOutput,
    /// Run only these checks, by code or by the beginning of a code, such as LC03.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Skip these checks, by code or by the beginning of a code.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// Explain a check instead: its causes, an example and commands. Does not need a cluster.
    #[arg(long, value_name = "CODE", exclusive = true)]
    pub explain: Option<String>,
    /// Fail for these findings, with exit status 1.
    #[arg(long, value_enum, default_value_t)]
    pub fail_on: FailOn,
    /// Write the requests to vCenter and its responses to a new file. Names, addresses, ids and other texts are
    /// replaced, and passwords and sessions are left out. The file is for the project's tests: look through it before
    /// you share it.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// The findings for which `doctor` fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Errors only.
    #[default]
    Error,
    /// Errors and warnings.
    Warning,
}

/// The output formats of `doctor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DoctorOutput {
    /// Every check, by subject.
    #[default]
    Table,
    /// Only warnings and errors.
    Short,
    /// One JSON document.
    Json,
    /// JUnit's XML.
    Junit,
}

/// Flags of `bundle`.
#[derive(Clone, Debug, Args)]
pub struct BundleFlags {
    /// Collect only from this namespace and from the programs' namespaces. Can be repeated. Default: all namespaces.
    #[arg(short, long = "namespace", value_name = "NAMESPACE")]
    pub namespaces: Vec<String>,
    /// The file to write; `-` is standard output. By default layercake-bundle-TIME.tar.gz in this folder.
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
    /// Leave out events and log lines of pods that are older than this, e.g. `1h`.
    #[arg(long, value_parser = duration)]
    pub since: Option<Duration>,
    /// Encrypt for this age recipient (age1…). Can be repeated.
    #[arg(long = "encrypt", value_name = "RECIPIENT")]
    pub recipients: Vec<String>,
    /// Leave out the report of `doctor`, which connects to vCenter.
    #[arg(long)]
    pub no_doctor: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterFlags,
}

/// Objects that can be described.
#[derive(Debug, Subcommand)]
pub enum Describe {
    /// Describe a TanzuKubernetesCluster, down to its VMs.
    Tkc(DescribeFlags),
    /// Describe a Cluster API Cluster, down to its VMs.
    Cluster(DescribeFlags),
    /// Describe a VirtualMachine.
    Vm(DescribeFlags),
}

/// Flags of `describe`.
#[derive(Clone, Debug, Args)]
pub struct DescribeFlags {
    /// The name of the object.
    pub name: String,
    /// The cluster.
    #[command(flatten)]
    pub target: TargetFlags,
    /// The output format.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Exit with status 4 if something blocks the object.
    #[arg(long)]
    pub exit_status: bool,
}

/// Parses `NAME=PATH` into the name and the path of a program. Fails for an unknown name.
fn tool(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=PATH"))?;
    let site = [&sim::tools::VCSIM, &sim::tools::KUBELET].map(|tool| tool.name);
    let known: Vec<_> = plane::tools::names().chain(site).collect();
    if known.contains(&name) {
        Ok((name.to_owned(), PathBuf::from(path)))
    } else {
        Err(format!("program `{name}` does not exist; the programs are {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_verbosity_of_one_digit() {
        for (args, expected) in [
            (&["list"][..], Some(0)),
            (&["-v", "6", "list"], Some(6)),
            (&["list", "-v9"], Some(9)),
            (&["bootstrap", "start", "lab", "--verbose=4"], Some(4)),
            (&["list", "-v", "10"], None),
            (&["list", "-v"], None),
        ] {
            let found = Cli::try_parse_from(["layercake"].iter().chain(args)).ok().map(|cli| cli.verbose);
            assert_eq!(found, expected, "{args:?}");
        }
    }

    #[test]
    fn lint_takes_manifests_with_and_without_a_flag() {
        for args in [&["a"][..], &["-f", "a"], &["a", "-f", "b"]] {
            let args = ["layercake", "lint"].iter().chain(args);
            assert!(Cli::try_parse_from(args).is_ok());
        }
        assert!(Cli::try_parse_from(["layercake", "lint"]).is_err());
    }
}
