//! Determines which container networks a cluster can use, from the contents of its node image.

use std::collections::BTreeSet;

use api::names::{annotation, label};

use crate::addons::builtin;
use crate::release::node_image::ReleaseImage;
use crate::release::resolution::AvailableRelease;
use crate::spec::network::CNI;

/// Returns the container network for a cluster that doesn't name one and whose nodes use this image: antrea if the image
/// contains it in a usable form, and the built-in network otherwise. If the image's contents are unknown, VMware's releases
/// count as containing antrea.
pub fn default_network(release: &AvailableRelease, image: Option<&ReleaseImage>) -> &'static str {
    let is_vmware = || release.version.to_string().contains("vmware");
    let has_antrea = match image.and_then(|image| image.networks.as_ref()) {
        Some(networks) => networks.usable.contains(CNI),
        None => is_vmware(),
    };
    if has_antrea { CNI } else { builtin::NETWORK }
}

/// The reasons why a cluster can't use the container network that it requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNetwork {
    /// The image contains the network in a form that clusters can't apply.
    #[error("node image {image} contains {network}, but a cluster cannot apply it: {reason}")]
    Unusable {
        image: String,
        network: String,
        /// The reason why the bundle can't be applied.
        reason: String,
    },
    /// The image doesn't contain the network.
    #[error("node image {image} does not contain {network}")]
    Missing {
        /// The node image.
        image: String,
        /// The requested container network.
        network: String,
    },
    /// The image doesn't contain the container images of the built-in network, and nodes don't pull images.
    #[error(
        "node image {image} does not contain the container images of {}, and nodes do not pull images",
        builtin::NETWORK
    )]
    NotPulled {
        /// The node image.
        image: String,
    },
}

impl NoNetwork {
    /// Returns the remedy. If `is_new` is true, the cluster can use another container network. The network of an existing cluster
    /// can't change, so its user can only provide the manifests or images.
    pub fn remedy(&self, is_new: bool, nodes_pull_images: bool) -> String {
        let of = |network: &str| {
            format!(
                "provide the manifests of {network} in a ConfigMap with the label {}: {network} and the annotation {}: cni",
                label::ADDON_NAME,
                annotation::ADDON_TYPE
            )
        };
        match self {
            Self::Unusable { network, .. } | Self::Missing { network, .. } if is_new && nodes_pull_images => {
                format!("Use {}, or {}", builtin::NETWORK, of(network))
            }
            Self::Unusable { network, .. } | Self::Missing { network, .. } => {
                format!(
                    "First {}. The images of its containers must be in the node image, or in a registry that nodes reach",
                    of(network)
                )
            }
            Self::NotPulled { .. } => "Use a release that was built with `layercake image build`; or, if nodes reach ghcr.io, start gcm with --nodes-pull-images; or name another container network, and provide its manifests in a ConfigMap".to_owned(),
        }
    }
}

/// Checks that a cluster whose nodes use this image can have the container network. `bundles` are the networks that ConfigMaps
/// in the namespace provide. An image with unknown contents is accepted.
///
/// # Errors
/// Returns an error if neither the image, a bundle, nor (for the built-in network) a registry provides the network.
pub fn check_network(
    network: &str,
    bundles: &BTreeSet<String>,
    image: &ReleaseImage,
    nodes_pull_images: bool,
) -> Result<(), NoNetwork> {
    let Some(carried) = &image.networks else { return Ok(()) };
    if bundles.contains(network) || carried.usable.contains(network) {
        return Ok(());
    }
    let (image, network) = (image.name.clone(), network.to_owned());
    if network == builtin::NETWORK {
        return if nodes_pull_images { Ok(()) } else { Err(NoNetwork::NotPulled { image }) };
    }
    Err(match carried.unusable.get(&network).cloned() {
        Some(reason) => NoNetwork::Unusable { image, network, reason },
        None => NoNetwork::Missing { image, network },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::release::networks::CarriedNetworks;
    use crate::release::version::Version;

    /// The kinds of node images: the row in docs/node-images.md, the networks that clusters can apply, and true if the image
    /// contains other networks.
    const KINDS: [(&str, &[&str], bool); 4] = [
        ("built by `layercake image build`", &["flannel"], false),
        ("VMware's, vSphere 7 format", &["antrea", "calico"], false),
        ("VMware's, vSphere 8 format", &[], true),
        ("image-builder's", &[], false),
    ];

    /// Checks that the table in docs/node-images.md lists the possible container networks.
    #[test]
    fn the_page_on_node_images_has_which_networks_are_possible() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/node-images.md");
        let page = std::fs::read_to_string(path).unwrap();
        let release = AvailableRelease::of(Version::parse("v1.33.1").unwrap());
        for (row, usable, has_packages) in KINDS {
            let unusable = has_packages.then(|| ("antrea".to_owned(), "Package".to_owned()));
            let networks = CarriedNetworks {
                usable: usable.iter().map(|name| (*name).to_owned()).collect(),
                unusable: unusable.into_iter().collect(),
            };
            let image = ReleaseImage { networks: Some(networks), ..ReleaseImage::default() };
            let possible = |network: &'static str, pulls: bool| {
                check_network(network, &BTreeSet::new(), &image, pulls).map_or("refused", |()| network)
            };
            let default = default_network(&release, Some(&image));
            let cells = [
                possible(default, false),
                possible(default, true),
                possible("antrea", true),
                possible("flannel", false),
            ];
            let expected = format!("| {row} | {} |\n", cells.join(" | "));
            assert!(page.contains(&expected), "docs/node-images.md lacks this row:\n{expected}");
        }
    }

    #[test]
    fn a_network_comes_from_the_namespace_from_the_image_or_from_gcm() {
        let image = |networks: Option<CarriedNetworks>| ReleaseImage {
            name: "image".to_owned(),
            networks,
            ..ReleaseImage::default()
        };
        let packages = image(Some(CarriedNetworks {
            usable: BTreeSet::new(),
            unusable: BTreeMap::from([("antrea".to_owned(), "it is a Package".to_owned())]),
        }));
        let own = BTreeSet::from(["antrea".to_owned()]);
        let none = BTreeSet::new();
        assert_eq!(check_network("antrea", &own, &packages, false), Ok(()));
        assert_eq!(check_network("flannel", &none, &packages, true), Ok(()));
        assert_eq!(
            check_network("antrea", &none, &image(None), false),
            Ok(()),
            "nothing is known of the image"
        );
        let refusals = [
            ("antrea", true, true),
            ("antrea", false, true),
            ("calico", true, true),
            ("flannel", true, false),
        ];
        let refusals = refusals.map(|(network, is_new, pulls)| {
            let none = check_network(network, &none, &packages, pulls).unwrap_err();
            format!("{none}. {}", none.remedy(is_new, pulls))
        });
        insta::assert_debug_snapshot!(refusals);
        let v33 = AvailableRelease::of(Version::parse("v1.33.1+vmware.1").unwrap());
        assert_eq!(default_network(&v33, Some(&packages)), "flannel");
        assert_eq!(default_network(&v33, None), "antrea");
        let v33 = AvailableRelease::of(Version::parse("v1.33.1").unwrap());
        assert_eq!(default_network(&v33, None), "flannel");
    }
}
