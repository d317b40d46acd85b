//! The flags for `apply`, `render`, `scale`, `upgrade`, `delete` and `list`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::init::CredentialFlags;
use super::shared::{Output, TargetFlags, duration};

/// Flags of `apply`.
#[derive(Clone, Debug, Args)]
pub struct Apply {
    /// Manifests, or folders of manifests; `-` is standard input. Can be repeated.
    #[arg(short, long, value_name = "MANIFEST", required = true)]
    pub filename: Vec<PathBuf>,
    /// The TanzuKubernetesRelease of the clusters, or the beginning of its name, instead of the release in the manifests.
    #[arg(long, value_name = "NAME")]
    pub release: Option<String>,
    /// The flags that `convert --apply` has, too.
    #[command(flatten)]
    pub flags: ApplyFlags,
}

/// Flags that `apply` and `convert --apply` share.
#[derive(Clone, Debug, Args)]
pub struct ApplyFlags {
    /// Only check the manifests: `client` as `lint` does, `server` by the API server, which shows the nodes that a
    /// change replaces.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "server")]
    pub dry_run: Option<DryRun>,
    /// The flags for conflicts, waiting and output.
    #[command(flatten)]
    pub change: ChangeFlags,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
    /// The site file of the bootstrap cluster. Required the first time. Can be repeated: the files are combined.
    #[arg(long, value_name = "SITE", requires = "bootstrap")]
    pub site: Vec<PathBuf>,
    /// The vCenter user of the VM operator.
    #[command(flatten)]
    pub credentials: CredentialFlags,
}

/// Flags of `render`.
#[derive(Clone, Debug, Args)]
pub struct Render {
    /// Manifests, or folders of manifests; `-` is standard input. Can be repeated.
    #[arg(short, long, value_name = "MANIFEST", required = true)]
    pub filename: Vec<PathBuf>,
    /// JSON instead of YAML.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}

/// The program that checks the manifests in a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// This command, as `layercake lint` does.
    Client,
    /// The API server, with its admission control.
    Server,
}

/// Flags of commands that change clusters.
#[derive(Clone, Debug, Args)]
pub struct ChangeFlags {
    /// Also change fields that another manager has set, such as a GitOps tool. Without this flag, they are named and
    /// nothing is changed.
    #[arg(long)]
    pub force_conflicts: bool,
    /// The flags for waiting.
    #[command(flatten)]
    pub wait: WaitFlags,
    /// The format of a report on standard output at the end.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

/// Flags of commands that change one cluster.
#[derive(Clone, Debug, Args)]
pub struct CheckedChangeFlags {
    /// Only let the API server check the change, and show the nodes that it replaces.
    #[arg(long)]
    pub dry_run: bool,
    /// The flags for conflicts, waiting and output.
    #[command(flatten)]
    pub change: ChangeFlags,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}

/// Flags of commands that wait.
#[derive(Clone, Copy, Debug, Args)]
pub struct WaitFlags {
    /// Show the progress until it is done. Without waiting, the command ends when the API server has accepted the change.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub wait: bool,
    /// The time to wait.
    #[arg(long, value_parser = duration, default_value = "30m")]
    pub timeout: Duration,
}

/// Flags of `scale`.
#[derive(Clone, Debug, Args)]
pub struct Scale {
    /// The name of the cluster.
    pub name: String,
    /// The number of nodes.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    pub replicas: i32,
    /// The node pool. Required if the cluster has several.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Scale the control plane instead of a node pool.
    #[arg(long, conflicts_with = "pool")]
    pub control_plane: bool,
    /// The flags for the change, including the dry run.
    #[command(flatten)]
    pub change: CheckedChangeFlags,
}

/// Flags of `upgrade`.
#[derive(Clone, Debug, Args)]
pub struct Upgrade {
    /// The name of the cluster.
    pub name: String,
    /// The TanzuKubernetesRelease, or the beginning of its name.
    #[arg(long, value_name = "NAME")]
    pub release: String,
    /// Let the control plane take one minor release after the other if the release is several minor releases ahead.
    #[arg(long)]
    pub in_steps: bool,
    /// The flags for the change, including the dry run.
    #[command(flatten)]
    pub change: CheckedChangeFlags,
}

/// Flags of `delete`.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    /// The name of the cluster.
    pub name: String,
    /// List the Machines and VMs that would be deleted, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The flags for waiting.
    #[command(flatten)]
    pub wait: WaitFlags,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}

/// Flags of `list`.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// List the clusters of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// The output format.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}
