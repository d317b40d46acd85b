//! The flags for `image`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use nodeimage::Preload;

use super::shared::{OperatorFlags, Output, duration};

/// Commands for node images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build a node image from Debian's packages and Go modules: an OVA for vSphere, the same disk for QEMU, and a list
    /// of the contents. Requires apt, dpkg, unshare and Go, root or user namespaces, and 8 GB of disk space. Does not
    /// require a hypervisor or a registry.
    Build(ImageBuild),
    /// Import an OVA into a content library of the vCenter that the VM operator is configured with. The VM operator then
    /// reads its libraries. Importing the same OVA again has no effect; an interrupted import is continued. After Ctrl-C,
    /// an incomplete item is removed.
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
    /// The item name. Default: the file name without its extension.
    #[arg(long)]
    pub name: Option<String>,
    /// The VM operator.
    #[command(flatten)]
    pub operator: OperatorFlags,
    /// The vCenter user. Default: the VM operator's user, which needs more privileges for imports.
    #[arg(long, value_name = "USER", requires = "password_file")]
    pub user: Option<String>,
    /// The file with the password of --user.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Wait until the image and its release exist. Exit status 4 if they do not exist in time, 1 if the image can provide
    /// no release.
    #[arg(long)]
    pub wait: bool,
    /// The time to wait.
    #[arg(long, value_parser = duration, default_value = "5m", requires = "wait")]
    pub timeout: Duration,
    /// The output format.
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
    #[arg(long, value_name = "DIR")]
    pub output_folder: PathBuf,
    /// Use the packages in the lock file of an earlier build, to build the same image again.
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Container images for nodes, in addition to Kubernetes' own: `management` for the Cluster API images that a
    /// management cluster needs, or an archive such as release/build-images writes. The flag can be repeated.
    #[arg(long, value_name = "management|ARCHIVE")]
    pub preload: Vec<Preload>,
}
