//! The flags for `new`.

use clap::{Args, Subcommand};

use super::shared::TargetFlags;

/// Kinds of `new`.
#[derive(Debug, Subcommand)]
pub enum NewCommand {
    /// Write the manifest of a TanzuKubernetesCluster to standard output, with a VM class, a storage class and a release that its
    /// namespace can use. Standard error shows what was chosen and why. Changes nothing.
    Cluster(NewCluster),
}

/// Flags of `new cluster`.
#[derive(Clone, Debug, Args)]
pub struct NewCluster {
    /// The name of the cluster.
    pub name: String,
    /// The TanzuKubernetesRelease, or the beginning of its name; by default the newest that the API server accepts.
    #[arg(long, value_name = "NAME")]
    pub release: Option<String>,
    /// The number of control plane nodes.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub control_plane: u32,
    /// The number of worker nodes.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub workers: u32,
    /// The VM class of all nodes; by default the smallest with 2 CPUs and 2 GiB of memory.
    #[arg(long, value_name = "NAME")]
    pub vm_class: Option<String>,
    /// The storage class of all nodes. Required if the namespace can use several.
    #[arg(long, value_name = "NAME")]
    pub storage_class: Option<String>,
    /// The management cluster.
    #[command(flatten)]
    pub target: TargetFlags,
}
