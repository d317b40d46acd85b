//! A cluster's network settings.

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{NetworkRanges, NetworkSettings, Proxy, Trust};

/// The default container network of clusters with VMware's releases, whose images contain this network.
pub const CNI: &str = "antrea";
/// The default pod range.
pub const PODS: &str = "192.168.0.0/16";
/// The default service range.
pub const SERVICES: &str = "10.96.0.0/12";
/// The default service domain.
pub const DOMAIN: &str = "cluster.local";

/// The network settings in a cluster spec. Defaults are applied to the container network and the domain, but not to the ranges.
#[derive(Clone, Copy)]
pub struct ClusterNetwork<'a> {
    pub cni: &'a str,
    /// The pod ranges as written, or empty.
    pub pods: &'a [String],
    /// The service ranges as written, or empty.
    pub services: &'a [String],
    /// The DNS domain of services.
    pub domain: &'a str,
    /// The nodes' proxy. A proxy without a URL, such as `{}`, counts as unset.
    pub proxy: Option<&'a Proxy>,
    /// Additional certificate authorities that nodes trust.
    pub trust: Option<&'a Trust>,
}

impl<'a> ClusterNetwork<'a> {
    /// Reads the network settings from a cluster spec.
    pub fn read(spec: &'a TanzuKubernetesClusterSpec) -> Self {
        let settings = network_settings(spec);
        let blocks = |ranges: Option<&'a NetworkRanges>| {
            ranges.and_then(|ranges| ranges.cidr_blocks.as_deref()).unwrap_or_default()
        };
        let says = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        let proxy = settings.and_then(|settings| settings.proxy.as_ref());
        Self {
            cni: settings.and_then(|settings| settings.cni.as_ref()).map_or(CNI, |cni| cni.name.as_str()),
            pods: blocks(settings.and_then(|settings| settings.pods.as_ref())),
            services: blocks(settings.and_then(|settings| settings.services.as_ref())),
            domain: settings.and_then(|settings| settings.service_domain.as_deref()).unwrap_or(DOMAIN),
            proxy: proxy.filter(|proxy| says(&proxy.http_proxy) || says(&proxy.https_proxy)),
            trust: settings.and_then(|settings| settings.trust.as_ref()),
        }
    }

    /// Returns the pod ranges, or [`PODS`] if the spec doesn't set any.
    pub fn pods_or_default(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        or_default(self.pods, PODS)
    }

    /// Returns the service ranges, or [`SERVICES`] if the spec doesn't set any.
    pub fn services_or_default(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        or_default(self.services, SERVICES)
    }
}

fn or_default<'a>(blocks: &'a [String], default: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
    let default = blocks.is_empty().then_some(default);
    blocks.iter().map(String::as_str).chain(default)
}

/// Returns the network settings as written.
pub fn network_settings(spec: &TanzuKubernetesClusterSpec) -> Option<&NetworkSettings> {
    spec.settings.as_ref()?.network.as_ref()
}
