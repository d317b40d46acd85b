//! The flags for `move`.

use std::path::PathBuf;

use clap::Args;

use super::shared::ClusterFlags;

/// Flags of `move`.
#[derive(Clone, Debug, Args)]
pub struct Move {
    /// Move only the clusters of this namespace. Default: the clusters of all namespaces.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Move from the bootstrap cluster with this name. If it is stopped, it is started for this command only.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kubeconfig", "context"])]
    pub bootstrap: Option<String>,
    /// The cluster to move from.
    #[command(flatten)]
    pub from: ClusterFlags,
    /// The kubeconfig context of the management cluster to move to; by default the current one.
    #[arg(long, value_name = "CONTEXT")]
    pub to_context: Option<String>,
    /// The kubeconfig file of the management cluster to move to; by default the file that kubectl uses.
    #[arg(long, value_name = "FILE")]
    pub to_kubeconfig: Option<PathBuf>,
    /// Move to the bootstrap cluster with this name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["to_context", "to_kubeconfig"])]
    pub to_bootstrap: Option<String>,
    /// Move to a workload cluster that the management cluster has created, and that `init` has prepared.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["to_context", "to_kubeconfig", "to_bootstrap"])]
    pub into: Option<String>,
    /// Move although claims of programs in the clusters stay behind. Copy them manually.
    #[arg(long)]
    pub leave_claims: bool,
    /// Show what would be moved, what would stay, and what would be refused. Changes nothing.
    #[arg(long)]
    pub dry_run: bool,
}
