//! The network of a cluster.

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{NetworkRanges, NetworkSettings, Proxy, Trust};

/// The container network that a cluster of VMware's releases gets unless it asks for another: their images carry it.
pub const CNI: &str = "antrea";
/// The addresses pods get.
pub const PODS: &str = "192.168.0.0/16";
/// The addresses services get.
pub const SERVICES: &str = "10.96.0.0/12";
/// The domain services get.
pub const DOMAIN: &str = "cluster.local";

/// The network of a cluster, read once from its spec. Container network and domain have their defaults filled in; ranges do not.
#[derive(Clone, Copy)]
pub struct NetworkSpec<'a> {
    /// The container network.
    pub cni: &'a str,
    /// The addresses of pods as their author wrote them; none if they are left out.
    pub pods: &'a [String],
    /// The addresses of services as their author wrote them; none if they are left out.
    pub services: &'a [String],
    /// The domain of services.
    pub domain: &'a str,
    /// The proxy of the nodes. One that names nothing to go through, such as `{}`, is none.
    pub proxy: Option<&'a Proxy>,
    /// The authorities that nodes trust in addition to the public ones.
    pub trust: Option<&'a Trust>,
}

impl<'a> NetworkSpec<'a> {
    /// Reads the network of a cluster.
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

    /// The addresses of pods, or the default.
    pub fn pods_or_default(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        or_default(self.pods, PODS)
    }

    /// The addresses of services, or the default.
    pub fn services_or_default(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        or_default(self.services, SERVICES)
    }
}

fn or_default<'a>(blocks: &'a [String], default: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
    let default = blocks.is_empty().then_some(default);
    blocks.iter().map(String::as_str).chain(default)
}

/// The network settings as they are written, if there are any.
pub fn network_settings(spec: &TanzuKubernetesClusterSpec) -> Option<&NetworkSettings> {
    spec.settings.as_ref()?.network.as_ref()
}
