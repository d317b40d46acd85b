//! Trust stores of operating systems: the files in which a node stores additional certificate authorities (CAs), and the command
//! that activates them.

use std::collections::BTreeMap;

/// An operating system family with one trust store layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStore {
    /// Photon, whose trust store is OpenSSL's certificate folder.
    Photon,
    /// Debian and Ubuntu, where local CAs are stored in a separate folder.
    Debian,
    /// Red Hat Enterprise Linux, and systems that are derived from it or use its tools.
    RedHat,
}

/// The `os-name` label values of each family, in lower case and without spaces, dashes or underscores. Image builders spell
/// these names differently.
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
    /// The operating systems with a known trust store, for messages.
    pub const SUPPORTED: &str =
        "photon, debian, ubuntu, rhel, rockylinux, centos, almalinux, oraclelinux, amazon and fedora";

    /// Returns the trust store for an image with these labels, if its operating system is known.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        let name = labels.get("os-name")?.to_ascii_lowercase().replace([' ', '-', '_'], "");
        NAMES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(store, _)| *store)
    }

    /// Returns the trust store that one of these commands updates, if any.
    pub fn of_commands(commands: &[String]) -> Option<Self> {
        let all = [Self::Photon, Self::Debian, Self::RedHat];
        all.into_iter().find(|store| commands.iter().any(|command| command == store.command()))
    }

    /// Returns the command that makes the system trust the files from [`Self::files`].
    pub fn command(self) -> &'static str {
        match self {
            Self::Photon => "rehash_ca_certificates.sh",
            Self::Debian => "update-ca-certificates",
            Self::RedHat => "update-ca-trust",
        }
    }

    /// Returns an `os-name` label value of this family.
    pub fn os_name(self) -> &'static str {
        match self {
            Self::Photon => "photon",
            Self::Debian => "debian",
            Self::RedHat => "rhel",
        }
    }

    /// Returns the paths of the files in which a CA with this name is stored.
    pub fn files(self, name: &str) -> Vec<String> {
        match self {
            // Return both paths for both families, as earlier versions did: other paths would change the bootstrap data of
            // existing clusters.
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
