//! Describes the bundles in a node image that a cluster doesn't get, and the reasons.
//!
//! VMware's images contain add-ons for Supervisor clusters. gcm applies only the container network. The other programs are
//! clients of Supervisor components that might not exist here, so they are reported instead.

use bounds::printable;

use crate::addons::image::NETWORKS;

/// The maximum number of bundles in a message.
const MAX_NAMES: usize = 24;
/// The maximum length of a bundle's name in a message, in characters.
const MAX_NAME: usize = 64;

/// The purpose of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundlePurpose {
    Network,
    Storage,
    CloudProvider,
    /// The authentication of users.
    Login,
    Other,
}

/// The storage drivers' bundle names in VMware's vSphere 7 images, and their package names in vSphere 8 images.
const STORAGE: [&str; 2] = ["pvcsi", "vsphere-pv-csi"];
/// The cloud providers' bundle and package names.
const CLOUD_PROVIDERS: [&str; 3] = ["vmware-guest-cluster", "guest-cluster-cloud-provider", "vsphere-cpi"];
/// The bundle and package names of the programs that authenticate users.
const LOGIN: [&str; 3] = ["authsvc", "guest-cluster-auth-service", "pinniped"];

impl BundlePurpose {
    fn of(name: &str) -> Self {
        match name {
            name if NETWORKS.contains(&name) => Self::Network,
            name if STORAGE.contains(&name) => Self::Storage,
            name if CLOUD_PROVIDERS.contains(&name) => Self::CloudProvider,
            name if LOGIN.contains(&name) => Self::Login,
            _ => Self::Other,
        }
    }

    /// Returns the reason why gcm doesn't apply such a bundle, phrased to follow the bundle's name. Returns an empty string if
    /// the only reason is that the bundle isn't a container network.
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

/// Returns a sentence about the bundles with this purpose, to append to a message. Returns an empty string if there are none.
pub fn format_sentence(names: &[String], purpose: BundlePurpose) -> String {
    let of_purpose = names.iter().filter(|name| BundlePurpose::of(name) == purpose).take(MAX_NAMES);
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

/// Returns a message that lists the bundles, each with the reason why it isn't applied. Returns `None` for an empty list.
pub fn summarize_bundles(names: &[String]) -> Option<String> {
    let describe = |name: &String| match BundlePurpose::of(name).reason() {
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
        assert_eq!(summarize_bundles(&[]), None);
        let of_vsphere_7 = names(&["authsvc", "calico", "metrics-server", "pvcsi", "vmware-guest-cluster"]);
        insta::assert_snapshot!(summarize_bundles(&of_vsphere_7).unwrap());
        for purpose in [BundlePurpose::Storage, BundlePurpose::CloudProvider, BundlePurpose::Login] {
            assert!(!format_sentence(&of_vsphere_7, purpose).is_empty(), "{purpose:?}");
            assert_eq!(format_sentence(&names(&["antrea", "metrics-server"]), purpose), "");
        }
        let many = vec!["x".repeat(400); 100];
        let text = summarize_bundles(&many).unwrap();
        assert!(text.contains("76 more") && text.len() < 4000, "{text}");
    }
}
