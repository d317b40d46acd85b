//! Bundles of the node image that a cluster does not get, and why.
//!
//! VMware's images contain add-ons for the clusters of a Supervisor. gcm applies the container network among them. The other programs are
//! clients of parts of a Supervisor that may not exist here, so they are named instead.

use bounds::printable;

use crate::addons::image::NETWORKS;

/// The most bundles that a message names, and the most characters of a name.
const MAX_NAMES: usize = 24;
const MAX_NAME: usize = 64;

/// The purpose of a bundle in a node image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A container network.
    Network,
    /// The storage driver.
    Storage,
    /// The cloud provider.
    CloudProvider,
    /// The login of users.
    Login,
    /// Anything else.
    Other,
}

/// The names of these bundles in VMware's images of vSphere 7, and of the packages in those of vSphere 8.
const STORAGE: [&str; 2] = ["pvcsi", "vsphere-pv-csi"];
const CLOUD_PROVIDERS: [&str; 3] = ["vmware-guest-cluster", "guest-cluster-cloud-provider", "vsphere-cpi"];
const LOGIN: [&str; 3] = ["authsvc", "guest-cluster-auth-service", "pinniped"];

impl Purpose {
    fn of(name: &str) -> Self {
        match name {
            name if NETWORKS.contains(&name) => Self::Network,
            name if STORAGE.contains(&name) => Self::Storage,
            name if CLOUD_PROVIDERS.contains(&name) => Self::CloudProvider,
            name if LOGIN.contains(&name) => Self::Login,
            _ => Self::Other,
        }
    }

    /// The reason why gcm does not apply such a bundle, after the bundle's name. Empty if gcm just applies container networks only.
    fn reason(self) -> &'static str {
        match self {
            Self::Network => "another container network",
            Self::Storage => "needs a Supervisor's storage provider",
            Self::CloudProvider => "needs a Supervisor's load balancers",
            Self::Login => "needs a Supervisor's single sign-on",
            Self::Other => "",
        }
    }
}

/// Names the bundles of one purpose as a sentence of another message; empty if there are none.
pub fn sentence(names: &[String], purpose: Purpose) -> String {
    let of_purpose = names.iter().filter(|name| Purpose::of(name) == purpose).take(MAX_NAMES);
    let names: Vec<_> = of_purpose.map(|name| printable(name, MAX_NAME)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        ". The node image contains {}, which {} and is not applied",
        names.join(" and "),
        purpose.reason()
    )
}

/// Names all bundles, each with the reason why it is not applied; nothing if there are none.
pub fn summary(names: &[String]) -> Option<String> {
    let describe = |name: &String| match Purpose::of(name).reason() {
        "" => printable(name, MAX_NAME),
        reason => format!("{} ({reason})", printable(name, MAX_NAME)),
    };
    let mut parts: Vec<_> = names.iter().take(MAX_NAMES).map(describe).collect();
    if names.len() > MAX_NAMES {
        parts.push(format!("{} more", names.len() - MAX_NAMES));
    }
    (!parts.is_empty()).then(|| {
        format!(
            "From a node image, only the container network that the cluster names is applied. These add-ons in the node image are not applied: {}. Provide those that you need as ConfigMaps (docs/addons.md)",
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bundle_that_is_not_applied_is_named_with_its_reason() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(summary(&[]), None);
        let of_vsphere_7 = names(&["authsvc", "calico", "metrics-server", "pvcsi", "vmware-guest-cluster"]);
        insta::assert_snapshot!(summary(&of_vsphere_7).unwrap());
        for purpose in [Purpose::Storage, Purpose::CloudProvider, Purpose::Login] {
            assert!(!sentence(&of_vsphere_7, purpose).is_empty(), "{purpose:?}");
            assert_eq!(sentence(&names(&["antrea", "metrics-server"]), purpose), "");
        }
        let many = vec!["x".repeat(400); 100];
        let text = summary(&many).unwrap();
        assert!(text.contains("76 more") && text.len() < 4000, "{text}");
    }
}
