//! The flags for `init`, `manifests` and `uninstall`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use components::catalogue::{COMPONENTS, Registries};
use components::render::Certificates;

use super::shared::{ClusterFlags, SiteNetworkProvider, duration};

/// Flags of `init`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Init {
    /// A subcommand that runs instead of the installation.
    #[command(subcommand)]
    pub command: Option<InitCommand>,
    /// A site file to check and apply, as `site discover` writes it. Can be repeated: the files are combined.
    #[arg(short, long, value_name = "SITE")]
    pub filename: Vec<PathBuf>,
    /// The vCenter user of the VM operator.
    #[command(flatten)]
    pub credentials: CredentialFlags,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// The registries of images.
    #[command(flatten)]
    pub registries: RegistryFlags,
    /// The network provider, if there is no site file. Default: as in the last installation, or port groups.
    #[arg(long, value_enum, conflicts_with = "filename")]
    pub network_provider: Option<SiteNetworkProvider>,
    /// Declare whether the nodes of workload clusters can pull the images of flannel and kube-vip from ghcr.io. Without
    /// this flag, the setting from the last installation is kept.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub nodes_pull_images: Option<bool>,
    /// Show what would be installed, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The time to wait for the definitions, and for each component.
    #[arg(long, value_parser = duration, default_value = "10m")]
    pub timeout: Duration,
}

/// Flags for the vCenter user of a site file.
#[derive(Clone, Debug, Default, Args)]
pub struct CredentialFlags {
    /// The vCenter user of the VM operator; by default the user in the Secret that the site file names.
    #[arg(long, value_name = "USER", requires = "password_file")]
    pub user: Option<String>,
    /// The file with the user's password.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The CA bundle (PEM) of vCenter, if the site file sets CAFilePath.
    #[arg(long, value_name = "FILE")]
    pub vcenter_ca: Option<PathBuf>,
}

/// Further actions of `init`.
#[derive(Clone, Debug, Subcommand)]
pub enum InitCommand {
    /// List the images that an installation needs.
    ListImages {
        /// The registries of images.
        #[command(flatten)]
        registries: RegistryFlags,
    },
}

/// Flags for the registries of images.
#[derive(Clone, Debug, Default, Args)]
pub struct RegistryFlags {
    /// The registry and path for the images of gcm, capw and vmop, e.g. `registry.example.com/layercake`. Default: as in the
    /// last installation, or localhost/layercake, whose images are imported on every node.
    #[arg(long, value_name = "REGISTRY")]
    pub layercake_registry: Option<String>,
    /// The tag for these images. Default: as in the last installation if it has this version, or this version.
    #[arg(long, value_name = "TAG")]
    pub layercake_tag: Option<String>,
    /// The registry and path for all images, including Cluster API's. Default: as in the last installation, or
    /// registry.k8s.io for Cluster API's images.
    #[arg(long, value_name = "REGISTRY", conflicts_with = "layercake_registry")]
    pub image_registry: Option<String>,
}

impl RegistryFlags {
    /// Returns the registries and the tag that the flags name.
    pub fn registries(&self) -> Registries {
        Registries {
            upstream: self.image_registry.clone(),
            own: self.layercake_registry.clone().or_else(|| self.image_registry.clone()),
            own_tag: self.layercake_tag.clone(),
        }
    }
}

/// The sources of webhook certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WebhookCertificates {
    /// cert-manager issues the certificates.
    #[default]
    CertManager,
    /// gcm and vmop create and renew their own certificates.
    Own,
}

impl WebhookCertificates {
    /// Returns the matching option for an installation.
    pub fn certificates(self) -> Certificates {
        match self {
            Self::CertManager => Certificates::CertManager,
            Self::Own => Certificates::Own,
        }
    }
}

/// Flags of `manifests`.
#[derive(Clone, Debug, Default, Args)]
pub struct ManifestsFlags {
    /// A site file with the program settings and the network provider. Its objects are not printed. Can be repeated: the
    /// files are combined.
    #[arg(short, long, value_name = "SITE")]
    pub filename: Vec<PathBuf>,
    /// The component to print, with all kinds of Layercake. Can be repeated. Default: all components.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(COMPONENTS.iter().map(|one| one.name)))]
    pub component: Vec<String>,
    /// The source of the webhook certificates. Cluster API's webhooks need cert-manager.
    #[arg(long, value_enum, default_value_t)]
    pub webhook_certificates: WebhookCertificates,
    /// The registries of images.
    #[command(flatten)]
    pub registries: RegistryFlags,
    /// The provider of networks, if there is no site file.
    #[arg(long, value_enum, default_value_t, conflicts_with = "filename")]
    pub network_provider: SiteNetworkProvider,
    /// Declare that the nodes of workload clusters can pull the images of flannel and kube-vip from ghcr.io.
    #[arg(long)]
    pub nodes_pull_images: bool,
}

/// Flags of `uninstall`.
#[derive(Clone, Debug, Args)]
pub struct Uninstall {
    /// Show the plan, and change nothing.
    #[arg(long)]
    pub plan: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// The time to wait for each namespace and each definition.
    #[arg(long, value_parser = duration, default_value = "5m")]
    pub timeout: Duration,
}
