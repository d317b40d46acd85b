//! The network settings for all guests: one ConfigMap, with vm-operator's name and keys.

use std::collections::BTreeMap;
use std::net::IpAddr;

pub const NETWORK_CONFIG_MAP: &str = "vmoperator-network-config";
const NAMESERVERS: &str = "nameservers";
const SEARCH: &str = "searchsuffixes";
const MTU: &str = "mtu";
/// The placeholder in vm-operator's manifest. It means that name servers aren't set.
const PLACEHOLDER: &str = "<worker_dns>";
/// The maximum number of characters of an invalid value in a message.
const LONGEST: usize = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestNetwork {
    /// Name servers (`nameservers`, separated by spaces or commas).
    pub nameservers: Vec<String>,
    /// Search domains for cluster nodes (`searchsuffixes`, separated by spaces or commas).
    pub search: Vec<String>,
    /// The MTU for all NICs (`mtu`), or `None` to keep the guest's default.
    pub mtu: Option<u32>,
}

impl GuestNetwork {
    /// Parses the ConfigMap's data. Also returns a problem for each invalid value. Guests don't get invalid values.
    pub fn from_data(data: Option<&BTreeMap<String, String>>) -> (Self, Vec<String>) {
        let (mut network, mut problems) = (Self::default(), Vec::new());
        for (key, value) in data.into_iter().flatten() {
            let words = || value.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty());
            let mut keep = |kept: &mut Vec<String>, is_valid: fn(&str) -> bool, kind: &str| {
                for word in words().filter(|word| *word != PLACEHOLDER) {
                    if is_valid(word) {
                        kept.push(word.to_owned());
                    } else {
                        problems.push(format!("{key} has {}, which is not {kind}", shown(word)));
                    }
                }
            };
            match key.as_str() {
                NAMESERVERS => keep(&mut network.nameservers, is_address, "an IP address"),
                SEARCH => keep(&mut network.search, is_domain, "a domain"),
                MTU => {
                    let parsed = value.trim().parse().ok().filter(|mtu| (576..=65_535).contains(mtu));
                    if parsed.is_none() && !value.trim().is_empty() {
                        problems.push(format!(
                            "{key} is {}, which is not a number from 576 to 65535",
                            shown(value)
                        ));
                    }
                    network.mtu = parsed;
                }
                _ => problems
                    .push(format!("the key {} is none of {NAMESERVERS}, {SEARCH} and {MTU}", shown(key))),
            }
        }
        (network, problems)
    }
}

fn shown(value: &str) -> String {
    format!("{:?}", bounds::printable(value, LONGEST))
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok()
}

fn is_domain(word: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len())
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    word.len() <= 253 && word.trim_end_matches('.').split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[(&str, &str)]) -> (GuestNetwork, Vec<String>) {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        GuestNetwork::from_data(Some(&data))
    }

    #[test]
    fn the_config_map_is_read_as_vm_operator_reads_it() {
        let (read, problems) = read(&[
            ("nameservers", "10.0.0.53  <worker_dns>,::1"),
            ("searchsuffixes", "a.lab b.lab"),
            ("mtu", "9000"),
        ]);
        assert_eq!(read.nameservers, ["10.0.0.53", "::1"]);
        assert_eq!((read.search, read.mtu), (vec!["a.lab".to_owned(), "b.lab".to_owned()], Some(9000)));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(GuestNetwork::from_data(None), (GuestNetwork::default(), Vec::new()));
    }

    #[test]
    fn values_that_guests_do_not_get_are_named() {
        let (network, problems) = read(&[
            ("nameservers", "10.0.0.53;fd00::53 dns.corp.example 10.0.0.300 10.0.0.1"),
            ("searchsuffixes", "corp..example"),
            ("mtu", "jumbo"),
            ("name-servers", "10.0.0.2"),
        ]);
        assert_eq!(
            network,
            GuestNetwork { nameservers: vec!["10.0.0.1".to_owned()], ..GuestNetwork::default() }
        );
        assert_eq!(
            problems,
            [
                "mtu is \"jumbo\", which is not a number from 576 to 65535",
                "the key \"name-servers\" is none of nameservers, searchsuffixes and mtu",
                "nameservers has \"10.0.0.53;fd00::53\", which is not an IP address",
                "nameservers has \"dns.corp.example\", which is not an IP address",
                "nameservers has \"10.0.0.300\", which is not an IP address",
                "searchsuffixes has \"corp..example\", which is not a domain",
            ]
        );
    }
}
