//! Flags and values that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use components::render::NodeNetworkProvider;
use jiff::SignedDuration;

/// The providers of networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SiteNetworkProvider {
    /// Port groups, without a network provider.
    #[default]
    PortGroups,
    /// net-operator.
    NetOperator,
    /// NSX.
    Nsx,
}

impl SiteNetworkProvider {
    /// Returns the provider's name in the VM operator's provider configuration.
    pub fn key(self) -> &'static str {
        match self {
            Self::PortGroups => "NAMED",
            Self::NetOperator => "VSPHERE_NETWORK",
            Self::Nsx => "NSXT",
        }
    }

    /// Returns the provider with this name. Any other name means port groups, which don't have a provider.
    pub fn of_key(key: &str) -> Self {
        [Self::NetOperator, Self::Nsx].into_iter().find(|one| one.key() == key).unwrap_or_default()
    }

    /// Returns the matching option for an installation.
    pub fn networks(self) -> NodeNetworkProvider {
        match self {
            Self::PortGroups => NodeNetworkProvider::PortGroups,
            Self::NetOperator => NodeNetworkProvider::NetOperator,
            Self::Nsx => NodeNetworkProvider::Nsx,
        }
    }
}

/// The contents of the VMs of a simulated vSphere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NodeKind {
    /// Simulated guests: a control plane of Kubernetes' own programs, without kernel, container runtime or Pods.
    #[default]
    Simulated,
    /// Machines that boot a node image in QEMU, with KVM if it is available, or else emulated. Requires the right to
    /// create a network.
    Qemu,
}

/// Output formats beside text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One JSON document.
    Json,
}

/// Flags that select a cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterFlags {
    /// The kubeconfig file; by default KUBECONFIG, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig context.
    #[arg(long)]
    pub context: Option<String>,
}

/// Flags that select a namespace of a cluster.
#[derive(Clone, Debug, Args)]
pub struct TargetFlags {
    /// The namespace. Default: the namespace of the kubeconfig context.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Use the bootstrap cluster with this name. If it is stopped, it is started for this command only.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kubeconfig", "context"])]
    pub bootstrap: Option<String>,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterFlags,
}

/// Flags that select the VM operator of a cluster, and so its vCenter.
#[derive(Clone, Debug, Args)]
pub struct OperatorFlags {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// The namespace of the VM operator, where the provider configuration is.
    #[arg(long, value_name = "NAME", default_value = "vmware-system-vmop")]
    pub operator_namespace: String,
    /// The CA bundle (PEM) of vCenter, if CAFilePath is a file in the container of the VM operator.
    #[arg(long, value_name = "FILE")]
    pub vcenter_ca: Option<PathBuf>,
}

/// Parses durations such as `90s`, `15m`, `1h30m`: whole numbers of hours, minutes and seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'h' | 'm' | 's'));
    let read = is_plain.then(|| text.parse::<SignedDuration>().ok()).flatten();
    read.and_then(|duration| duration.try_into().ok())
        .ok_or_else(|| format!("`{text}` is not a duration; write it as 90s, 15m or 1h30m"))
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
}
