//! The trust stores of operating systems: where a node keeps additional authorities, and which program collects them.

use std::collections::BTreeMap;

/// A family of operating systems that keep additional authorities in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStore {
    /// Photon, which collects the folder where OpenSSL looks.
    Photon,
    /// Debian and Ubuntu, which have a folder of their own for local authorities.
    Debian,
    /// Red Hat Enterprise Linux and systems that are built from it or keep its tools.
    RedHat,
}

/// The names of each family in the label `os-name`, in lower case without spaces and dashes. Builders of images differ in them.
const NAMES: [(TrustStore, &[&str]); 3] = [
    (TrustStore::Photon, &["photon", "photonos"]),
    (TrustStore::Debian, &["debian", "ubuntu"]),
    (
        TrustStore::RedHat,
        &[
            "rhel",
            "redhat",
            "redhatenterpriselinux",
            "rocky",
            "rockylinux",
            "centos",
            "centosstream",
            "alma",
            "almalinux",
            "oracle",
            "oraclelinux",
            "ol",
            "amazon",
            "amazonlinux",
            "amzn",
            "fedora",
        ],
    ),
];

impl TrustStore {
    /// The systems that additional authorities work on, for messages.
    pub const SUPPORTED: &str =
        "photon, debian, ubuntu, rhel, rockylinux, centos, almalinux, oraclelinux, amazon and fedora";

    /// Returns the trust store of an image with these labels, if its operating system is known.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        let name = labels.get("os-name")?.to_ascii_lowercase().replace([' ', '-', '_'], "");
        NAMES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(store, _)| *store)
    }

    /// Returns the trust store that one of these commands collects.
    pub fn of_commands(commands: &[String]) -> Option<Self> {
        let all = [Self::Photon, Self::Debian, Self::RedHat];
        all.into_iter().find(|store| commands.iter().any(|command| command == store.command()))
    }

    /// The command that makes the system trust the files of [`Self::files`].
    pub fn command(self) -> &'static str {
        match self {
            Self::Photon => "rehash_ca_certificates.sh",
            Self::Debian => "update-ca-certificates",
            Self::RedHat => "update-ca-trust",
        }
    }

    /// A name of the family in the label `os-name`.
    pub fn os_name(self) -> &'static str {
        match self {
            Self::Photon => "photon",
            Self::Debian => "debian",
            Self::RedHat => "rhel",
        }
    }

    /// The files of an authority of this name.
    pub fn files(self, name: &str) -> Vec<String> {
        match self {
            // Nodes of both have both, as earlier versions made them: other files would be other texts.
            Self::Photon | Self::Debian => vec![
                format!("/etc/ssl/certs/{name}.pem"),
                format!("/usr/local/share/ca-certificates/{name}.crt"),
            ],
            Self::RedHat => vec![format!("/etc/pki/ca-trust/source/anchors/{name}.pem")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<TrustStore> {
        TrustStore::of(&BTreeMap::from([("os-name".to_owned(), name.to_owned())]))
    }

    #[test]
    fn systems_are_known_by_the_names_that_builders_give_them() {
        for (name, store) in [
            ("photon", Some(TrustStore::Photon)),
            ("ubuntu", Some(TrustStore::Debian)),
            ("Debian", Some(TrustStore::Debian)),
            ("rhel", Some(TrustStore::RedHat)),
            ("rockylinux", Some(TrustStore::RedHat)),
            ("CentOS-Stream", Some(TrustStore::RedHat)),
            ("almalinux", Some(TrustStore::RedHat)),
            ("Amazon Linux", Some(TrustStore::RedHat)),
            ("flatcar", None),
            ("sles", None),
            ("", None),
        ] {
            assert_eq!(of(name), store, "{name}");
        }
        assert_eq!(TrustStore::of(&BTreeMap::new()), None);
        for name in TrustStore::SUPPORTED.split([',', ' ']).filter(|name| !["", "and"].contains(name)) {
            assert!(of(name).is_some(), "{name}");
        }
        for (store, names) in NAMES {
            assert!(names.contains(&store.os_name()));
            assert_eq!(TrustStore::of_commands(&[store.command().to_owned()]), Some(store));
        }
        assert_eq!(TrustStore::of_commands(&["reboot".to_owned()]), None);
    }
}
