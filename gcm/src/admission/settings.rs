//! Proxy, trusted authorities and storage.
//!
//! A proxy's address carries a password: no text made here repeats it.

use std::collections::BTreeSet;

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::Proxy;
use bounds::printable;
use jiff::Timestamp;
use url::Url;

use super::authorities;
use super::denial::FieldDenial;
use super::nodes::offered;
use crate::spec::network::network_settings;
use crate::sync::storage_classes::first_edition;

const PROXY: &str = "spec.settings.network.proxy";
/// The most characters of an entry that a message repeats.
const LONGEST_SHOWN: usize = 64;
const SHAPE: &str = "Write http://user:password@address:port";

/// Returns what is wrong with the proxy and the authorities of `spec`, which was `old` before.
pub(super) fn denials(
    spec: &TanzuKubernetesClusterSpec,
    old: Option<&TanzuKubernetesClusterSpec>,
) -> Vec<FieldDenial> {
    let Some(network) = network_settings(spec) else { return Vec::new() };
    let before = old.and_then(network_settings);
    let mut denials = network.proxy.as_ref().map(proxy_denials).unwrap_or_default();
    let trusted = before.and_then(|before| before.trust.as_ref());
    denials.extend(network.trust.iter().flat_map(|trust| authorities::denials(trust, trusted)));
    denials
}

fn proxy_denials(proxy: &Proxy) -> Vec<FieldDenial> {
    let Proxy { http_proxy, https_proxy, no_proxy } = proxy;
    let mut denials = Vec::new();
    let written = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
    let parts = [
        ("httpProxy", written(http_proxy)),
        ("httpsProxy", written(https_proxy)),
        ("noProxy", no_proxy.is_some()),
    ];
    if parts.iter().any(|(_, there)| *there) {
        denials.extend(parts.iter().filter(|(_, there)| !there).map(|(key, _)| {
            FieldDenial::new(
                format!("{PROXY}.{key}"),
                "it is missing; httpProxy, httpsProxy and noProxy must be set together",
                "Set all three, or none",
            )
        }));
    }
    for (key, text) in [("httpProxy", http_proxy), ("httpsProxy", https_proxy)] {
        denials.extend(
            text.as_deref()
                .and_then(proxy_url_fault)
                .map(|reason| FieldDenial::new(format!("{PROXY}.{key}"), reason, SHAPE)),
        );
    }
    let unfit = |entry: &&String| !entry.trim().is_empty() && !is_no_proxy_entry(entry.trim());
    denials.extend(no_proxy.iter().flatten().find(unfit).map(|entry| {
        FieldDenial::new(
            format!("{PROXY}.noProxy"),
            format!("{:?} is not a host, domain or address range", printable(entry, LONGEST_SHOWN)),
            "Write one of them for each entry, such as 10.0.0.0/8, .corp.example or host:8080",
        )
    }));
    denials
}

/// Whether all characters are of hosts, domains, addresses, ports and ranges. Anything else could end the line or the
/// quotes that the entry stands in on a node.
pub fn is_no_proxy_entry(entry: &str) -> bool {
    !entry.is_empty() && entry.bytes().all(|b| b.is_ascii_alphanumeric() || b".*:/_[]-".contains(&b))
}

fn proxy_url_fault(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return None;
    }
    if text.contains(['<', '>']) {
        return Some("it still contains placeholders in angle brackets".to_owned());
    }
    if text.trim().contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("it contains a blank or a line break".to_owned());
    }
    match Url::parse(text.trim()) {
        Err(error) => Some(format!("it is not a URL: {error}")),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            Some("it does not begin with http:// or https://".to_owned())
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) => Some("it has no host".to_owned()),
        Ok(_) => None,
    }
}

/// Whether a cluster that is given `class` has `name` of it.
fn is_edition(name: &str, class: &str) -> bool {
    class == name || class == first_edition(name)
}

/// Warnings about storage classes for the guest that are not assigned to the namespace.
pub fn unassigned(
    spec: &TanzuKubernetesClusterSpec,
    namespace: &str,
    assigned: &BTreeSet<String>,
) -> Vec<String> {
    let storage = spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    let classes = storage.and_then(|storage| storage.classes.as_deref()).unwrap_or_default();
    let default = storage.and_then(|storage| storage.default_class.as_deref());
    let text = |field: String, class: &str| {
        format!(
            "{field}: StorageClass {class:?} is not assigned to namespace {namespace:?}; the cluster gets it when it is. {}",
            offered(assigned)
        )
    };
    let missing =
        classes.iter().enumerate().filter(|(_, class)| !class.is_empty() && !assigned.contains(*class));
    let default =
        default.filter(|name| !name.is_empty() && !assigned.iter().any(|class| is_edition(name, class)));
    missing
        .map(|(at, class)| text(format!("spec.settings.storage.classes[{at}]"), class))
        .chain(default.map(|class| text("spec.settings.storage.defaultClass".to_owned(), class)))
        .collect()
}

/// Returns warnings about authorities, at the time `now`, and about storage classes.
pub(super) fn warnings(spec: &TanzuKubernetesClusterSpec, now: Timestamp) -> Vec<String> {
    let trust = network_settings(spec).and_then(|network| network.trust.as_ref());
    let mut warnings: Vec<_> = trust.iter().flat_map(|trust| authorities::warnings(trust, now)).collect();
    warnings.extend(default_class_warning(spec));
    warnings
}

fn default_class_warning(spec: &TanzuKubernetesClusterSpec) -> Option<String> {
    let storage = spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    let default =
        storage.and_then(|storage| storage.default_class.as_deref()).filter(|class| !class.is_empty());
    let classes = storage.and_then(|storage| storage.classes.as_deref());
    match (default, classes) {
        (Some(default), Some(classes))
            if !classes.is_empty() && !classes.iter().any(|class| is_edition(default, class)) =>
        {
            Some(format!(
                "spec.settings.storage.defaultClass: {default:?} is not among spec.settings.storage.classes"
            ))
        }
        _ => None,
    }
}
