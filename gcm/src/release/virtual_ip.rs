//! Chooses the program that announces the control plane address of a cluster without a load balancer. The flags and the node
//! image's contents decide.

use clap::{Args, ValueEnum};

use super::node_image::ReleaseImage;
use super::resolution::AvailableRelease;

/// The kube-vip container image that nodes pull.
const KUBE_VIP_IMAGE: &str = "ghcr.io/kube-vip/kube-vip:v1.0.1";

/// The program that announces the address on the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VirtualIpKind {
    /// None: a load balancer has the address.
    None,
    /// keepalived or kube-vip, whichever the node image contains; kube-vip from ghcr.io if nodes pull images.
    #[default]
    Auto,
    /// keepalived, by VRRP; needs no access to the cluster.
    Keepalived,
    /// kube-vip, by ARP and a lease in the cluster.
    KubeVip,
}

/// The flags for the program that announces the addresses of new control planes.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualIpFlags {
    /// The program that announces the address of a control plane on its nodes. Required if capw gives clusters virtual IPs. The
    /// default depends on the contents of the node image.
    #[arg(long, value_enum, default_value_t, overrides_with = "virtual_ip")]
    pub virtual_ip: VirtualIpKind,
    /// The container image of this program, instead of the one in the node image. With `auto`, the kube-vip image that nodes
    /// pull.
    #[arg(long, value_name = "IMAGE", overrides_with = "virtual_ip_image")]
    pub virtual_ip_image: Option<String>,
    /// Nodes can pull container images that their node image does not contain, from registries such as ghcr.io.
    #[arg(long)]
    pub nodes_pull_images: bool,
}

/// The program that announces the control plane address, with its container image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressHolder {
    /// A load balancer has the address, so the nodes don't announce it.
    None,
    Keepalived(String),
    KubeVip(String),
}

impl AddressHolder {
    /// Returns the program's name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "a load balancer",
            Self::Keepalived(_) => "keepalived",
            Self::KubeVip(_) => "kube-vip",
        }
    }

    /// Returns true if both are the same program, even with different images.
    pub fn is_same_program(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The error if none of the programs that can announce the control plane address is available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "node image {image} contains neither keepalived nor kube-vip, and nodes do not pull images, so nothing can hold the address of the control plane"
)]
pub struct NoAddressHolder {
    image: String,
}

impl NoAddressHolder {
    /// The remedy for an administrator.
    pub const REMEDY: &str = "Use a release that was built with `layercake image build`, or, if nodes reach ghcr.io, start gcm with --nodes-pull-images";
}

/// Chooses the program that announces the address of a control plane. `image` is the image of its nodes, from the release
/// `release`.
///
/// # Errors
/// With [`VirtualIpKind::Auto`], returns an error if neither the image nor the release contains a suitable program and nodes
/// don't pull images.
pub fn choose_holder(
    flags: &VirtualIpFlags,
    release: &AvailableRelease,
    image: &ReleaseImage,
) -> Result<AddressHolder, NoAddressHolder> {
    let given = flags.virtual_ip_image.clone();
    let keepalived = || image.keepalived.clone();
    let kube_vip = || release.kube_vip.clone();
    let pulled = || KUBE_VIP_IMAGE.to_owned();
    match flags.virtual_ip {
        VirtualIpKind::None => Ok(AddressHolder::None),
        VirtualIpKind::Keepalived => {
            let own = || keepalived().unwrap_or_else(|| api::names::KEEPALIVED_IMAGE.to_owned());
            Ok(AddressHolder::Keepalived(given.unwrap_or_else(own)))
        }
        VirtualIpKind::KubeVip => Ok(AddressHolder::KubeVip(given.or_else(kube_vip).unwrap_or_else(pulled))),
        VirtualIpKind::Auto => keepalived()
            .map(AddressHolder::Keepalived)
            .or_else(|| kube_vip().map(AddressHolder::KubeVip))
            .or_else(|| flags.nodes_pull_images.then(|| AddressHolder::KubeVip(given.unwrap_or_else(pulled))))
            .ok_or_else(|| NoAddressHolder { image: image.name.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::version::Version;

    #[test]
    fn what_holds_an_address_depends_on_the_image_and_flags_win() {
        use VirtualIpKind::{Auto, Keepalived, KubeVip, None as Nobody};
        let own = AddressHolder::Keepalived;
        let arp = |image: &str| AddressHolder::KubeVip(image.to_owned());
        let none = || Err(NoAddressHolder { image: "image".to_owned() });
        for (kind, given, pulls, keepalived, kube_vip, expected) in [
            (Auto, None, false, Some("k"), Some("v"), Ok(own("k".to_owned()))),
            (Auto, None, true, Some("k"), None, Ok(own("k".to_owned()))),
            (Auto, None, true, None, Some("v"), Ok(arp("v"))),
            (Auto, None, true, None, None, Ok(arp(KUBE_VIP_IMAGE))),
            (Auto, Some("g"), true, None, None, Ok(arp("g"))),
            (Auto, Some("g"), true, None, Some("v"), Ok(arp("v"))),
            (Auto, Some("g"), false, None, None, none()),
            (Auto, None, false, None, None, none()),
            (Keepalived, None, false, None, None, Ok(own(api::names::KEEPALIVED_IMAGE.to_owned()))),
            (Keepalived, Some("g"), false, Some("k"), None, Ok(own("g".to_owned()))),
            (KubeVip, None, false, Some("k"), Some("v"), Ok(arp("v"))),
            (KubeVip, None, false, None, None, Ok(arp(KUBE_VIP_IMAGE))),
            (Nobody, None, false, None, None, Ok(AddressHolder::None)),
        ] {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let flags =
                VirtualIpFlags { virtual_ip: kind, virtual_ip_image: text(given), nodes_pull_images: pulls };
            let release = AvailableRelease {
                kube_vip: text(kube_vip),
                ..AvailableRelease::of(Version::parse("v1.33.1").unwrap())
            };
            let image = ReleaseImage {
                name: "image".to_owned(),
                keepalived: text(keepalived),
                ..ReleaseImage::default()
            };
            assert_eq!(
                choose_holder(&flags, &release, &image),
                expected,
                "{flags:?} {keepalived:?} {kube_vip:?}"
            );
        }
    }

    /// Checks that the table in docs/node-images.md describes the choice.
    #[test]
    fn the_page_on_node_images_has_what_is_chosen() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/node-images.md");
        let page = std::fs::read_to_string(path).unwrap();
        for (kind, keepalived, kube_vip) in [
            ("built by `layercake image build`", true, false),
            ("of a release that names kube-vip in `spec.kubernetes.kube-vip`", false, true),
            ("VMware's, other releases", false, false),
            ("image-builder's", false, false),
        ] {
            let release = AvailableRelease {
                kube_vip: kube_vip.then(|| "localhost:5000/vmware.io/kube-vip:v1".to_owned()),
                ..AvailableRelease::of(Version::parse("v1.33.1").unwrap())
            };
            let image = ReleaseImage {
                keepalived: keepalived.then(|| api::names::KEEPALIVED_IMAGE.to_owned()),
                ..ReleaseImage::default()
            };
            let cell = |nodes_pull_images| {
                let flags = VirtualIpFlags { nodes_pull_images, ..VirtualIpFlags::default() };
                match choose_holder(&flags, &release, &image) {
                    Ok(AddressHolder::KubeVip(image)) if image.starts_with("ghcr.io") => {
                        "kube-vip from ghcr.io".to_owned()
                    }
                    Ok(holder) => holder.name().to_owned(),
                    Err(_) => "refused".to_owned(),
                }
            };
            let row = format!("| {kind} | {} | {} |\n", cell(false), cell(true));
            assert!(page.contains(&row), "docs/node-images.md lacks this row:\n{row}");
        }
    }
}
