//! Proxy, trusted authorities and storage.
//!
//! A proxy's address carries a password: no text made here repeats it.

use std::collections::BTreeSet;

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{Proxy, Trust, TrustedCa};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bounds::printable;
use url::Url;

use super::denial::FieldDenial;
use super::nodes::offered;
use crate::spec::network::network_settings;
use crate::sync::storage_classes::first_edition;

const PROXY: &str = "spec.settings.network.proxy";
const TRUST: &str = "spec.settings.network.trust.additionalTrustedCAs";
/// The most characters of an entry that a message repeats.
const LONGEST_SHOWN: usize = 64;
const SHAPE: &str = "Write http://user:password@address:port";

pub(super) fn denials(spec: &TanzuKubernetesClusterSpec) -> Vec<FieldDenial> {
    let Some(network) = network_settings(spec) else { return Vec::new() };
    let mut denials = network.proxy.as_ref().map(proxy_denials).unwrap_or_default();
    denials.extend(network.trust.as_ref().map(trust_denials).unwrap_or_default());
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

/// What an authority's files are called before their endings: `corp` and `corp.crt` are one.
pub fn stem(name: &str) -> &str {
    name.trim_end_matches(".crt")
}

fn trust_denials(trust: &Trust) -> Vec<FieldDenial> {
    let authorities = trust.additional_trusted_cas.as_deref().unwrap_or_default();
    let mut denials = Vec::new();
    for (at, TrustedCa { name, data }) in authorities.iter().enumerate() {
        let field = format!("{TRUST}[{at}]");
        let is_file_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if name.is_empty() || !is_file_name || name.starts_with('.') {
            denials.push(FieldDenial::new(
                format!("{field}.name"),
                format!("{name:?} cannot be the name of a file"),
                "Use letters, digits, '-', '_' and '.'",
            ));
        } else if authorities[..at].iter().any(|other| stem(&other.name) == stem(name)) {
            denials.push(FieldDenial::new(
                format!("{field}.name"),
                format!("another authority has the name {:?}", stem(name)),
                "Give each authority a unique name",
            ));
        }
        denials.extend(certificate_fault(data).map(|reason| {
            FieldDenial::new(format!("{field}.data"), reason, "Use the output of: base64 -w0 FILE.pem")
        }));
    }
    denials
}

/// What is wrong with the base64 of a PEM file with certificates, or nothing.
fn certificate_fault(data: &str) -> Option<String> {
    if data.contains("-----BEGIN") {
        return Some("it is PEM, but the field needs PEM encoded in base64".to_owned());
    }
    if data.contains("...") {
        return Some("it still contains a placeholder (three dots)".to_owned());
    }
    let Some(pem) = pem(data) else {
        return Some("it is not base64".to_owned());
    };
    pem_fault(&pem).map(|fault| format!("the decoded text {fault}"))
}

/// Returns the fault of a text that is to contain PEM certificates, without the subject of the sentence: `contains no PEM certificate`.
pub(super) fn pem_fault(pem: &str) -> Option<&'static str> {
    let mut blocks = certificates(pem).peekable();
    if blocks.peek().is_none() {
        return Some("contains no PEM certificate");
    }
    blocks.find(|der| der.first() != Some(&0x30)).map(|_| "contains a block that is not a certificate")
}

/// The text that base64 data stands for; line breaks in the data do not count.
pub fn pem(data: &str) -> Option<String> {
    let joined: String = data.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(joined).ok()?).ok()
}

/// The contents of the certificate blocks of a PEM text; a block that is not base64 is empty.
fn certificates(pem: &str) -> impl Iterator<Item = Vec<u8>> {
    pem.split("-----BEGIN CERTIFICATE-----").skip(1).map(|rest| {
        let body: String =
            rest.split("-----END CERTIFICATE-----").next().unwrap_or_default().split_whitespace().collect();
        STANDARD.decode(body).unwrap_or_default()
    })
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

pub(super) fn warnings(spec: &TanzuKubernetesClusterSpec) -> Vec<String> {
    let storage = spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    let default =
        storage.and_then(|storage| storage.default_class.as_deref()).filter(|class| !class.is_empty());
    let classes = storage.and_then(|storage| storage.classes.as_deref());
    match (default, classes) {
        (Some(default), Some(classes))
            if !classes.is_empty() && !classes.iter().any(|class| is_edition(default, class)) =>
        {
            vec![format!(
                "spec.settings.storage.defaultClass: {default:?} is not among spec.settings.storage.classes"
            )]
        }
        _ => Vec::new(),
    }
}
