//! The flags for `bootstrap`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::init::CredentialFlags;
use super::shared::Output;

/// Commands for bootstrap clusters.
#[derive(Clone, Debug, Subcommand)]
pub enum BootstrapCommand {
    /// Start a bootstrap cluster: a management cluster on this machine, without containers, whose objects are kept in a
    /// folder. Run it again after an interruption.
    Start(BootstrapStart),
    /// Stop a bootstrap cluster. Its VMs continue to run, but are not repaired.
    Stop {
        /// The name of the bootstrap cluster.
        name: String,
    },
    /// Delete a bootstrap cluster that has no VMs, with its folder.
    Remove {
        /// The name of the bootstrap cluster.
        name: String,
        /// Delete it although it has VMs, which stay in vCenter and which nothing manages any more.
        #[arg(long)]
        orphan: bool,
    },
    /// List the bootstrap clusters of this machine. For a stopped one, shows the last known state.
    List {
        /// The output format.
        #[arg(short, long, value_enum)]
        output: Option<Output>,
    },
    /// Run as the process of a bootstrap cluster.
    #[command(hide = true)]
    Serve {
        /// The name of the bootstrap cluster.
        name: String,
        /// The command that starts it also stops it.
        #[arg(long)]
        transient: bool,
    },
}

/// Flags of `bootstrap start`.
#[derive(Clone, Debug, Args)]
pub struct BootstrapStart {
    /// The name of the bootstrap cluster.
    pub name: String,
    /// A site file, as `site discover` or `site simulate` writes it. Required the first time. Can be repeated: the
    /// files are combined. Without it, `--password-file` replaces the stored password, and `--user` the stored user.
    #[arg(short, long, value_name = "SITE")]
    pub filename: Vec<PathBuf>,
    /// The vCenter user of the VM operator.
    #[command(flatten)]
    pub credentials: CredentialFlags,
    /// Declare that the nodes of workload clusters can pull the images of flannel and kube-vip from ghcr.io.
    #[arg(long)]
    pub nodes_pull_images: bool,
    /// The kubeconfig file to which context layercake-NAME is added; by default KUBECONFIG, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}
