//! The network settings of a cluster.

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{NetworkSettings, Proxy};

/// The network settings, if there are any.
pub fn network_settings(spec: &TanzuKubernetesClusterSpec) -> Option<&NetworkSettings> {
    spec.settings.as_ref()?.network.as_ref()
}

/// The proxy of a cluster's nodes; one that names nothing to go through, such as `{}`, is none.
pub fn proxy(spec: &TanzuKubernetesClusterSpec) -> Option<&Proxy> {
    let says = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
    network_settings(spec)?.proxy.as_ref().filter(|proxy| says(&proxy.http_proxy) || says(&proxy.https_proxy))
}
