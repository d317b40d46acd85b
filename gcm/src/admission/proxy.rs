//! Validates the nodes' proxy and its exceptions.
//!
//! A proxy URL can contain a password, so messages never quote URLs.

use std::net::IpAddr;

use api::gcm::parts::Proxy;
use bounds::printable;
use ipnet::IpNet;

use super::denial::FieldDenial;
use super::go_url;

const PROXY: &str = "spec.settings.network.proxy";
/// The maximum number of characters that a message quotes from a noProxy entry.
const LONGEST_SHOWN: usize = 64;

/// Returns the denials for a proxy. URLs and entries that are unchanged since `old` were accepted before and stay valid.
pub(super) fn denials(proxy: &Proxy, old: Option<&Proxy>) -> Vec<FieldDenial> {
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
    let urls = [
        ("httpProxy", http_proxy, old.map(|old| &old.http_proxy)),
        ("httpsProxy", https_proxy, old.map(|old| &old.https_proxy)),
    ];
    for (key, text, before) in urls {
        let text = text
            .as_deref()
            .filter(|text| !text.trim().is_empty() && before != Some(&Some((*text).to_owned())));
        denials.extend(
            text.and_then(|text| go_url::parse(text).err())
                .map(|fault| FieldDenial::new(format!("{PROXY}.{key}"), fault.reason, fault.remedy)),
        );
    }
    let before = old.and_then(|old| old.no_proxy.as_deref()).unwrap_or_default();
    let entries =
        no_proxy.iter().flatten().filter(|entry| !entry.trim().is_empty() && !before.contains(entry));
    denials.extend(entries.filter_map(|entry| Some((entry, entry_fault(entry.trim())?))).take(1).map(
        |(entry, reason)| {
            FieldDenial::new(
                format!("{PROXY}.noProxy"),
                format!("{:?} {reason}", printable(entry, LONGEST_SHOWN)),
                "Write one host, domain or address range for each entry, such as 10.0.0.0/8, .corp.example or host:8080",
            )
        },
    ));
    denials
}

/// Returns true if the entry isn't empty and all its characters belong to hosts, domains, addresses, ports or ranges. On a
/// node, other characters could end the line or the quotes around the entry.
pub fn is_no_proxy_entry(entry: &str) -> bool {
    !entry.is_empty() && entry.bytes().all(|b| b.is_ascii_alphanumeric() || b".*:/_[]-".contains(&b))
}

/// Returns the reason why programs would ignore a noProxy entry, or `None` if the entry works. Go's `httpproxy` treats
/// unparseable entries as domains that never match.
fn entry_fault(entry: &str) -> Option<&'static str> {
    const OTHER: &str = "is not a host, domain or address range";
    if !is_no_proxy_entry(entry) {
        return Some(OTHER);
    }
    if entry == "*" || entry.parse::<IpAddr>().is_ok() {
        return None;
    }
    if entry.contains('/') {
        return entry.parse::<IpNet>().err().map(|_| OTHER);
    }
    let bracketed = entry.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((address, port)) if address.parse::<IpAddr>().is_ok() => (address, port),
        Some(_) => return Some(OTHER),
        None => entry.split_at(entry.find(':').unwrap_or(entry.len())),
    };
    let is_port =
        |port: &str| port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|n| n > 0));
    if !port.is_empty() && !is_port(port) {
        return Some(OTHER);
    }
    if bracketed.is_some() {
        return None;
    }
    let domain = host.strip_prefix("*.").unwrap_or(host);
    if domain.contains('*') {
        return Some("has a * that is not its beginning, which no program understands");
    }
    let is_number = domain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_empty = domain.trim_matches('.').is_empty();
    (is_empty || domain.contains(['[', ']']) || (is_number && domain.parse::<IpAddr>().is_err()))
        .then_some(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_programs_understand() {
        for entry in [
            "*",
            "10.0.0.0/8",
            "10.0.0.7/8",
            "fd00::/8",
            "10.0.0.1",
            "::1",
            "[::1]",
            "[fd00::1]:8080",
            "10.0.0.1:80",
            "localhost",
            ".corp.example",
            "*.corp.example",
            "host:8080",
            "my_host",
            "corp",
            "a.b.",
            ".svc",
        ] {
            assert_eq!(entry_fault(entry), None, "{entry}");
        }
        for entry in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0",
            "10.*",
            "10.0.*.1",
            "*corp",
            "a*.corp",
            "http://host",
            "host/path",
            "host:",
            "host:0",
            "host:99999",
            "host:port",
            ":8080",
            "a b",
            "a,b",
            "[::1",
            "[host]:1",
            "010.0.0.1",
            ".",
            "ä",
        ] {
            assert!(entry_fault(entry).is_some(), "{entry}");
        }
    }
}
