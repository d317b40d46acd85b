//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use sim::releases::FurtherRelease;

/// Kubernetes clusters made of vSphere virtual machines, from TanzuKubernetesCluster manifests.
#[derive(Debug, Parser)]
#[command(name = "layercake", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Start everything on this machine: control plane, Cluster API, our controllers, a simulated vSphere.
    Up(Up),
    /// Stop the stack that `up --detach` left running.
    Down,
    /// Show why a cluster is not up: the tree from TanzuKubernetesCluster to vSphere VM, the blocking cause on top.
    Describe {
        /// What to describe.
        #[command(subcommand)]
        object: Describe,
    },
    /// Show the serial console of a node of `up --nodes qemu`: kernel, cloud-init, kubeadm.
    Console(Console),
    /// Find out what keeps VMs and clusters from coming up, before they are applied: configuration, vCenter, privileges,
    /// library, storage, network, Kubernetes, Cluster API, manifests. Changes nothing. Exit status 0: nothing is wrong;
    /// 1: an error; 2: warnings only.
    Doctor(Doctor),
    /// Collect what a supporter needs to see why a cluster or VM does not come up: objects, events, logs and checks, in
    /// one file, without secrets. Changes nothing.
    Bundle(Bundle),
    /// Check manifests without a cluster; exit status 1 if one is wrong.
    Lint {
        /// Manifests; `-` is standard input.
        #[arg(required = true)]
        manifests: Vec<PathBuf>,
    },
    /// Make the images that nodes are cloned from.
    Image {
        /// What to do with images.
        #[command(subcommand)]
        command: ImageCommand,
    },
}

/// What can be done with node images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build a node image from Debian's packages and Go modules: an OVA for vSphere, the same disk for QEMU, and the list of
    /// what is in it. Needs apt, dpkg, unshare and Go, root or user namespaces, and 8 GB of disk, but no hypervisor and no
    /// registry.
    Build(ImageBuild),
    /// Import an OVA into a content library of the vCenter that the VM operator is configured with. The same OVA is imported
    /// once; what was broken off is taken up again. Exit status 0: the item is there; 1: it is not; 130: interrupted, and what
    /// was begun is removed.
    Import(ImageImport),
}

/// Flags of `image import`.
#[derive(Clone, Debug, Args)]
pub struct ImageImport {
    /// The OVA.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The content library, by name or id; not a subscribed one.
    #[arg(long, value_name = "LIBRARY")]
    pub library: String,
    /// The item's name; by default the file's, without its extension.
    #[arg(long)]
    pub name: Option<String>,
    /// The kubeconfig file; by default KUBECONFIG, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig context.
    #[arg(long)]
    pub context: Option<String>,
    /// The namespace of the VM operator, where the provider configuration is.
    #[arg(long, default_value = "vmware-system-vmop")]
    pub namespace: String,
    /// The CA bundle (PEM) of vCenter, where CAFilePath names a file of the program's container.
    #[arg(long, value_name = "FILE")]
    pub vcenter_ca: Option<PathBuf>,
    /// The user in vCenter; by default the VM operator's, who needs more privileges for imports.
    #[arg(long, value_name = "USER", requires = "password_file")]
    pub user: Option<String>,
    /// The file with the password of --user.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// How to print what was imported.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

/// Flags of `image build`.
#[derive(Clone, Debug, Args)]
pub struct ImageBuild {
    /// The release of Kubernetes, e.g. `v1.36`.
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: String,
    /// The operating system.
    #[arg(long, value_name = "NAME", default_value = "debian-13")]
    pub os: String,
    /// The folder for the files of the image.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Take the packages of an earlier build, from its lock file: they make the same image.
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
}

/// Flags of `up`.
#[derive(Clone, Debug, Args)]
pub struct Up {
    /// Manifests to apply and follow until every cluster in them is Running; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub manifests: Vec<PathBuf>,
    /// Tear everything down then; exit status 0 if all clusters are Running, 1 if not.
    #[arg(long)]
    pub once: bool,
    /// Leave everything running in the background; `layercake down` stops it.
    #[arg(long, conflicts_with = "once")]
    pub detach: bool,
    /// How long to wait for the clusters; 15m if not given, with `--nodes qemu` 1h.
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// What to print on standard output at the end.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// How the VM operator speaks with vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: Wire,
    /// What the simulated vSphere has for networks.
    #[arg(long, value_enum, default_value_t)]
    pub network: SiteNetwork,
    /// What runs in the VMs of the simulated vSphere.
    #[arg(long, value_enum, default_value_t)]
    pub nodes: NodeKind,
    /// With `--nodes qemu`, a node image: the OVA that `image build` made, its other files beside it. May be repeated.
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// A release that the simulated library has besides its own, e.g. `v1.29.4+vmware.3-tkg.1`. May be repeated; those that the
    /// manifests name are there anyway.
    #[arg(long = "release", value_name = "VERSION")]
    pub releases: Vec<FurtherRelease>,
    /// A program to use instead of a built one, e.g. `etcd=/usr/bin/etcd`.
    #[arg(long = "tool", value_name = "NAME=PATH", value_parser = tool)]
    pub tools: Vec<(String, PathBuf)>,
    /// Run as the stack that another `up` leaves behind.
    #[arg(long, hide = true)]
    pub background: bool,
}

/// Protocols of vCenter's VIM API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// The best one that vCenter has.
    #[default]
    Auto,
    /// JSON, from vCenter 8.0 U1 on.
    #[value(name = "vijson")]
    ViJson,
    /// SOAP, which every vCenter has.
    Soap,
}

impl Wire {
    /// As the provider configuration of the VM operator calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ViJson => "vijson",
            Self::Soap => "soap",
        }
    }
}

/// What a simulated vSphere has for networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SiteNetwork {
    /// NSX: every cluster has a network and a load balancer of its own.
    Nsx,
    /// Port groups: control plane nodes hold their cluster's address themselves.
    #[default]
    PortGroups,
}

/// What runs in the VMs of a simulated vSphere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NodeKind {
    /// Guests that are played: a control plane of Kubernetes' own programs, and no kernel, container runtime or Pod.
    #[default]
    Simulated,
    /// Machines that boot a node image in QEMU, by KVM where it works, else emulated. Needs the right to make a network.
    Qemu,
}

/// Flags of `console`.
#[derive(Clone, Debug, Args)]
pub struct Console {
    /// The name of the node, which is its VirtualMachine's.
    pub name: String,
    /// Go on with what is added, until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
    /// Its namespace; by default that of the current context.
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The kubeconfig file; by default KUBECONFIG, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig context.
    #[arg(long)]
    pub context: Option<String>,
}

/// Flags of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct Doctor {
    /// Manifests to check, too.
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub manifests: Vec<PathBuf>,
    /// The kubeconfig file; by default KUBECONFIG, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig context.
    #[arg(long)]
    pub context: Option<String>,
    /// The namespace of the VM operator, where the provider configuration is.
    #[arg(long, default_value = "vmware-system-vmop")]
    pub namespace: String,
    /// The CA bundle (PEM) of vCenter, where CAFilePath names a file of the program's container.
    #[arg(long, value_name = "FILE")]
    pub vcenter_ca: Option<PathBuf>,
    /// How to print what was found.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: DoctorOutput,
    /// Only these checks, by code or its beginning, such as LC03.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Not these checks, by code or its beginning.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub skip: Vec<String>,
}

/// How `doctor` prints what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DoctorOutput {
    /// Every check, by subject.
    #[default]
    Table,
    /// Only what is not in order.
    Short,
    /// One JSON document.
    Json,
    /// JUnit's XML.
    Junit,
}

/// Flags of `bundle`.
#[derive(Clone, Debug, Args)]
pub struct Bundle {
    /// Only this namespace and those of the programs; may be repeated. By default all.
    #[arg(short, long = "namespace", value_name = "NAMESPACE")]
    pub namespaces: Vec<String>,
    /// The file to write; `-` is standard output. By default layercake-bundle-TIME.tar.gz in this folder.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
    /// Leave out events and lines of pods' logs that are older, e.g. `1h`.
    #[arg(long, value_parser = duration)]
    pub since: Option<Duration>,
    /// Encrypt for this age recipient (age1…); may be repeated.
    #[arg(long = "encrypt", value_name = "RECIPIENT")]
    pub recipients: Vec<String>,
    /// Leave out the report of `doctor`, which asks vCenter.
    #[arg(long)]
    pub no_doctor: bool,
    /// The kubeconfig file; by default KUBECONFIG, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig context.
    #[arg(long)]
    pub context: Option<String>,
}

/// Objects that can be described.
#[derive(Debug, Subcommand)]
pub enum Describe {
    /// Describe a TanzuKubernetesCluster.
    Tkc {
        /// Its name.
        name: String,
        /// Its namespace; by default that of the current context.
        #[arg(short, long)]
        namespace: Option<String>,
        /// The kubeconfig file; by default KUBECONFIG, then ~/.kube/config.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// The kubeconfig context.
        #[arg(long)]
        context: Option<String>,
        /// How to print it.
        #[arg(short, long, value_enum)]
        output: Option<Output>,
    },
}

/// Output formats beside text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One JSON document.
    Json,
}

/// Reads durations such as `90s`, `15m`, `1h30m`: whole numbers of hours, minutes and seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'h' | 'm' | 's'));
    let read = is_plain.then(|| text.parse::<SignedDuration>().ok()).flatten();
    read.and_then(|duration| duration.try_into().ok())
        .ok_or_else(|| format!("`{text}` is no duration; write it as 90s, 15m or 1h30m"))
}

/// Reads `NAME=PATH`.
fn tool(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=PATH"))?;
    let site = [&sim::tools::VCSIM, &sim::tools::KUBELET].map(|tool| tool.name);
    let known: Vec<_> = plane::tools::names().chain(site).collect();
    if known.contains(&name) {
        Ok((name.to_owned(), PathBuf::from(path)))
    } else {
        Err(format!("there is no program `{name}`; there are {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_kubectl() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["", "15", "m", "15x", "1.5h", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
