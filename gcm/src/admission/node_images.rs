//! Chooses the node image from a cluster's release, and checks that the image suits the cluster.

use std::collections::BTreeSet;

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use bounds::printable;
use kube::ResourceExt;

use super::container_network::check_network;
use super::denial::FieldDenial;
use super::network::unlisted_cni;
use super::queries::{OS_IMAGE, SHOWN};
use super::version;
use crate::release::node_image::{ReleaseImage, choose};
use crate::release::resolution::{self, AvailableRelease};
use crate::release::version::Version;
use crate::release::virtual_ip::{AddressHolder, NoAddressHolder, VirtualIpFlags, choose_holder};
use crate::spec::network::ClusterNetwork;
use crate::spec::release::current_version;

/// The maximum number of alternative releases in a message.
const NAMED_RELEASES: usize = 3;
const RELEASE: &str = "spec.topology.controlPlane.tkr.reference.name";

/// Returns the denials for a cluster whose node image doesn't suit the cluster. Skips releases with unknown images, and
/// clusters that stay at their release.
pub(super) fn denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
    bundles: &BTreeSet<String>,
    virtual_ip: Option<&VirtualIpFlags>,
) -> Vec<FieldDenial> {
    let Ok(release) = resolution::resolve_release(version::intended_request(new, old), available) else {
        return Vec::new();
    };
    let before = old.and_then(current_version);
    InstalledReleases { available, bundles: Some(bundles), virtual_ip }.denials(new, before.as_ref(), release)
}

/// The facts about an installation that decide which releases a cluster can use.
#[derive(Clone, Copy)]
pub struct InstalledReleases<'a> {
    /// The releases, with their node images.
    pub available: &'a [AvailableRelease],
    /// The container networks that bundles in the cluster's namespace provide, or `None` if unknown.
    pub bundles: Option<&'a BTreeSet<String>>,
    /// The flags that decide which program announces control plane addresses, or `None` if unknown.
    pub virtual_ip: Option<&'a VirtualIpFlags>,
}

impl<'a> InstalledReleases<'a> {
    /// Returns the releases that admission accepts as an upgrade from `current`, newest first.
    pub fn updates(&self, tkc: &TanzuKubernetesCluster, current: &Version) -> Vec<&'a Version> {
        let accepted = |version: &&Version| {
            let mut releases = self.available.iter().filter(|release| release.version == **version);
            releases.any(|release| self.denials(tkc, Some(current), release).is_empty())
        };
        resolution::find_updates(current, self.available).into_iter().filter(accepted).collect()
    }

    fn denials(
        &self,
        new: &TanzuKubernetesCluster,
        before: Option<&Version>,
        release: &AvailableRelease,
    ) -> Vec<FieldDenial> {
        if release.images.is_empty() || before == Some(&release.version) {
            return Vec::new();
        }
        let Some(image) = chosen(new, release) else {
            return vec![no_image(new, release, before, self.available)];
        };
        let Some(flags) = self.virtual_ip else { return Vec::new() };
        let holder = match choose_holder(flags, release, image) {
            Ok(holder) => {
                let held = before.and_then(|before| self.holder(new, before));
                held.filter(|held| !held.is_same_program(&holder))
                    .map(|held| other_holder(release, &held, &holder, &self.with_holder(new, before, &held)))
            }
            Err(none) => Some(FieldDenial::new(RELEASE, none.to_string(), NoAddressHolder::REMEDY)),
        };
        let network = self.bundles.and_then(|bundles| {
            network_denial(new, before.is_none(), bundles, image, flags.nodes_pull_images)
        });
        holder.into_iter().chain(network).collect()
    }

    /// Returns the program that would announce the control plane address with the release `version`, or `None` if it can't be
    /// determined.
    fn holder(&self, tkc: &TanzuKubernetesCluster, version: &Version) -> Option<AddressHolder> {
        let release = self.available.iter().find(|candidate| candidate.version == *version)?;
        choose_holder(self.virtual_ip?, release, chosen(tkc, release)?).ok()
    }

    /// Returns the newest releases to which the cluster can upgrade from `before` and that contain the same program as `held`,
    /// which announces the cluster's control plane address.
    fn with_holder(
        &self,
        tkc: &TanzuKubernetesCluster,
        before: Option<&Version>,
        held: &AddressHolder,
    ) -> Vec<String> {
        let updates = before.map(|before| resolution::find_updates(before, self.available));
        let same =
            |version: &&Version| self.holder(tkc, version).is_some_and(|holder| holder.is_same_program(held));
        let same = updates.into_iter().flatten().filter(same).map(Version::object_name);
        same.take(NAMED_RELEASES).collect()
    }
}

/// Returns true if the node image doesn't provide the container network. In this case, a bundle in the namespace can provide
/// it.
pub fn wants_bundle(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> bool {
    let release = resolution::resolve_release(version::intended_request(new, old), available);
    let image = release.ok().and_then(|release| chosen(new, release));
    image.is_some_and(|image| {
        check_network(ClusterNetwork::read(&new.spec).cni, &BTreeSet::new(), image, false).is_err()
    })
}

/// Checks the container network when a cluster is created or upgraded. An upgrade can't change the network, so the denial then
/// names the release field.
fn network_denial(
    new: &TanzuKubernetesCluster,
    is_created: bool,
    bundles: &BTreeSet<String>,
    image: &ReleaseImage,
    nodes_pull_images: bool,
) -> Option<FieldDenial> {
    // `network::cni_denial` denies unknown names.
    if unlisted_cni(&new.spec).is_some() {
        return None;
    }
    let none = check_network(ClusterNetwork::read(&new.spec).cni, bundles, image, nodes_pull_images).err()?;
    let field = if is_created { "spec.settings.network.cni.name" } else { RELEASE };
    Some(FieldDenial::new(field, none.to_string(), none.remedy(is_created, nodes_pull_images)))
}

/// Returns the node image that the cluster gets from this release, if an image matches the cluster's query.
pub(super) fn chosen<'r>(
    tkc: &TanzuKubernetesCluster,
    release: &'r AvailableRelease,
) -> Option<&'r ReleaseImage> {
    let query = tkc.annotations().get(annotation::RESOLVE_OS_IMAGE).map(String::as_str);
    choose(&release.images, query, None)
}

/// Returns the denial for a release without an image that matches the cluster's query. The remedy names the newest releases that
/// have such an image and to which the cluster can upgrade.
fn no_image(
    tkc: &TanzuKubernetesCluster,
    release: &AvailableRelease,
    before: Option<&Version>,
    available: &[AvailableRelease],
) -> FieldDenial {
    let name = release.version.object_name();
    let Some(query) = tkc.annotations().get(annotation::RESOLVE_OS_IMAGE) else {
        let reason = format!("all node images of {name} are marked as incompatible");
        return FieldDenial::new(RELEASE, reason, "Use another release");
    };
    let reason = format!("no node image of {name} matches {:?}", printable(query, SHOWN));
    let bootable = release.images.iter().filter(|image| image.can_boot_nodes());
    let systems = Vec::from_iter(bootable.map(system).collect::<BTreeSet<_>>());
    let candidates = match before {
        Some(before) => resolution::find_updates(before, available),
        None => resolution::usable_versions(available),
    };
    let has_image = |version: &&Version| {
        available.iter().any(|other| other.version == **version && other.has_image(query))
    };
    let releases = candidates.into_iter().filter(has_image).map(Version::object_name);
    let releases: Vec<_> = releases.take(NAMED_RELEASES).collect();
    let ways = [("one of its operating systems", systems), ("a release with such an image", releases)];
    let ways = ways.into_iter().filter(|(_, names)| !names.is_empty());
    let ways: Vec<_> = ways.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    let remedy = match &ways[..] {
        [] => "Import a node image that matches".to_owned(),
        ways => format!("Use {}", ways.join("; or ")),
    };
    FieldDenial::new(OS_IMAGE, reason, remedy)
}

/// Formats an image's operating system as a query that selects it.
fn system(image: &ReleaseImage) -> String {
    let label = |key: &str| image.labels.get(key).map(String::as_str).unwrap_or_default();
    format!("os-name={},os-version={}", label("os-name"), label("os-version"))
}

/// Returns the denial for a release whose image contains `holder` instead of `held`, the program that announces the cluster's
/// control plane address. The two programs would compete for the address. `usable` lists releases that contain the same program.
fn other_holder(
    release: &AvailableRelease,
    held: &AddressHolder,
    holder: &AddressHolder,
    usable: &[String],
) -> FieldDenial {
    let reason = format!(
        "the address of the control plane is held by {}, and the node image of {} contains {} instead",
        held.name(),
        release.version.object_name(),
        holder.name()
    );
    let remedy = if usable.is_empty() {
        format!("Import a newer node image that contains {}, or create a new cluster", held.name())
    } else {
        format!("Use a release whose node image contains {}: {}", held.name(), usable.join(", "))
    };
    FieldDenial::new(RELEASE, reason, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::virtual_ip::VirtualIpKind;
    use crate::testing::{SITE_VERSIONS, available, node_image, sound};

    const V33: &str = "v1.33.1+vmware.1-fips-vkr.2";
    const V34: &str = "v1.34.2+vmware.1-vkr.1";

    fn image(name: &str, os: &str, keepalived: Option<&str>) -> ReleaseImage {
        let kind = if os == "windows" { os } else { "linux" };
        let image = node_image(name, &[("os-name", os), ("os-version", "5"), ("os-type", kind)]);
        ReleaseImage { keepalived: keepalived.map(str::to_owned), ..image }
    }

    /// Returns the releases of the simulated vCenter, some of them with these images. Each entry of `images` contains the
    /// version, the images and the kube-vip image.
    fn releases(images: &[(&str, Vec<ReleaseImage>, Option<&str>)]) -> Vec<AvailableRelease> {
        let mut releases = available(&SITE_VERSIONS);
        for (version, images, kube_vip) in images {
            let release = releases.iter_mut().find(|one| one.version.to_string() == *version).unwrap();
            release.images.clone_from(images);
            release.kube_vip = kube_vip.map(str::to_owned);
        }
        releases
    }

    fn of(version: &str) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        let name = version.replace('+', "---");
        tkc.spec.topology.control_plane.tkr = Some(api::gcm::parts::Tkr::named(&name));
        tkc
    }

    #[test]
    fn what_no_image_can_do_is_refused_at_once() {
        let photon = || image("photon-5", "photon", None);
        let own = || image("debian-13", "debian", Some("keepalived:1"));
        let both = || vec![image("ubuntu-22", "ubuntu", None), photon()];
        let asking = |query: &str| {
            let mut tkc = of(V33);
            tkc.annotations_mut().insert(annotation::RESOLVE_OS_IMAGE.to_owned(), query.to_owned());
            tkc
        };
        let auto = VirtualIpFlags::default();
        let pulls = VirtualIpFlags { nodes_pull_images: true, ..auto.clone() };
        let balanced = VirtualIpFlags { virtual_ip: VirtualIpKind::None, ..auto.clone() };
        let refused = |tkc: &TanzuKubernetesCluster,
                       old: Option<&TanzuKubernetesCluster>,
                       releases: &[AvailableRelease],
                       flags: &VirtualIpFlags| {
            let all = denials(tkc, old, releases, &BTreeSet::new(), Some(flags));
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let vmware = releases(&[(V33, both(), None), (V34, vec![photon()], Some("vip:1"))]);
        let mut of_windows = both();
        of_windows.push(image("windows-2022", "windows", None));
        let systems = releases(&[(V33, of_windows, None), (V34, vec![own()], None)]);
        insta::assert_debug_snapshot!([
            refused(&of(V33), None, &vmware, &auto),
            refused(&asking("os-name=windows"), None, &vmware, &pulls),
            refused(&asking("os-name=debian"), None, &systems, &pulls),
            refused(&asking("os-name=debian"), Some(&of(V34)), &systems, &pulls),
            refused(
                &asking("os-name=rhel"),
                None,
                &releases(&[(V33, vec![image("windows", "windows", None)], None)]),
                &pulls
            ),
            refused(
                &of(V34),
                Some(&of(V33)),
                &releases(&[(V33, vec![own()], None), (V34, both(), Some("vip:1"))]),
                &auto
            ),
        ]);
        let none: [String; 0] = [];
        for flags in [&pulls, &balanced] {
            assert_eq!(refused(&of(V33), None, &vmware, flags), none, "{flags:?}");
        }
        assert_eq!(refused(&asking("os-name=ubuntu"), None, &vmware, &pulls), none);
        assert_eq!(refused(&of(V34), None, &vmware, &auto), none, "kube-vip is in the image");
        assert_eq!(refused(&of(V33), Some(&of(V33)), &vmware, &auto), none, "it runs");
        assert_eq!(refused(&of(V33), None, &releases(&[]), &auto), none, "nothing is known of its images");
    }
}
