//! The network settings of all guests: one ConfigMap, named and keyed as vm-operator's.

use std::collections::BTreeMap;

/// The ConfigMap in the operator's own namespace.
pub const NETWORK_CONFIG_MAP: &str = "vmoperator-network-config";

/// The network settings of all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestNetwork {
    /// Name servers (`nameservers`, divided by spaces).
    pub nameservers: Vec<String>,
    /// Search domains of the nodes of clusters (`searchsuffixes`, divided by spaces).
    pub search: Vec<String>,
    /// The MTU of all network adapters (`mtu`); else the guest's own.
    pub mtu: Option<u32>,
}

impl GuestNetwork {
    /// What the ConfigMap's data says; without one, nothing. What can't be read is left out, with a line in the log.
    pub fn from_data(data: Option<&BTreeMap<String, String>>) -> Self {
        let text = |key: &str| data.and_then(|data| data.get(key)).map_or("", String::as_str);
        let words = |key: &str| {
            let words = text(key).split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let (nameservers, bad): (Vec<_>, Vec<_>) =
            words("nameservers").into_iter().partition(|server| server.parse::<std::net::IpAddr>().is_ok());
        if !bad.is_empty() {
            tracing::warn!(config_map = NETWORK_CONFIG_MAP, ?bad, "nameservers: these are not IP addresses");
        }
        let mtu = text("mtu").trim();
        let parsed = mtu.parse().ok().filter(|mtu| (576..=65_535).contains(mtu));
        if parsed.is_none() && !mtu.is_empty() {
            tracing::warn!(config_map = NETWORK_CONFIG_MAP, mtu, "mtu: not a number from 576 to 65535");
        }
        Self { nameservers, search: words("searchsuffixes"), mtu: parsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_map_is_read_leniently() {
        let data = [
            ("nameservers", "10.0.0.53  <worker_dns>,::1"),
            ("searchsuffixes", "a.lab b.lab"),
            ("mtu", "9000"),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let read = GuestNetwork::from_data(Some(&data));
        assert_eq!(read.nameservers, ["10.0.0.53", "::1"]);
        assert_eq!((read.search, read.mtu), (vec!["a.lab".to_owned(), "b.lab".to_owned()], Some(9000)));
        assert_eq!(GuestNetwork::from_data(None), GuestNetwork::default());
        let bad = [("mtu".to_owned(), "big".to_owned())].into();
        assert_eq!(GuestNetwork::from_data(Some(&bad)).mtu, None);
    }
}
