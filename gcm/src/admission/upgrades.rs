//! Chooses the release for an upgrade if the author wrote only a version prefix.

use std::borrow::Cow;

use api::gcm::TanzuKubernetesCluster;

use super::node_images::InstalledReleases;
use super::version::intended_request;
use crate::release::resolution::{self, AvailableRelease};
use crate::release::virtual_ip::VirtualIpFlags;
use crate::spec::release::current_version;

/// Returns the releases from which the one for `new` is resolved. These are all available releases, unless an upgrade request
/// matches several releases and admission would deny the newest. In that case, they are the releases that admission accepts, if
/// one of them matches the request.
pub fn choices<'a>(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &'a [AvailableRelease],
    virtual_ip: Option<&VirtualIpFlags>,
) -> Cow<'a, [AvailableRelease]> {
    let all = Cow::Borrowed(available);
    let Some(before) = old.and_then(current_version) else { return all };
    let request = intended_request(new, old);
    let Ok(newest) = resolution::resolve_release(request, available) else { return all };
    let is_named = request.exact().as_ref() == Some(&newest.version);
    if is_named || newest.version == before {
        return all;
    }
    let updates = InstalledReleases { available, bundles: None, virtual_ip }.updates(new, &before);
    if updates.contains(&&newest.version) {
        return all;
    }
    let accepted: Vec<_> =
        available.iter().filter(|release| updates.contains(&&release.version)).cloned().collect();
    if resolution::resolve_release(request, &accepted).is_ok() { Cow::Owned(accepted) } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::node_image::ReleaseImage;
    use crate::testing::{available, node_image, sound};

    const RUNS: &str = "v1.34.2+vmware.1-vkr.1";
    const OTHER_PROGRAM: &str = "v1.35.4+layercake.1";
    const SAME_PROGRAM: &str = "v1.35.1+vmware.1-vkr.1";
    const TOO_NEW: &str = "v1.36.3+vmware.1-vkr.1";

    /// Returns releases whose images contain kube-vip, except for one whose image contains keepalived.
    fn releases() -> Vec<AvailableRelease> {
        let mut releases = available(&[RUNS, SAME_PROGRAM, OTHER_PROGRAM, TOO_NEW]);
        for release in &mut releases {
            let own = release.version.to_string() == OTHER_PROGRAM;
            let image =
                node_image("linux", &[("os-name", "photon"), ("os-version", "5"), ("os-type", "linux")]);
            release.images =
                vec![ReleaseImage { keepalived: own.then(|| "keepalived:1".to_owned()), ..image }];
            release.kube_vip = (!own).then(|| "vip:1".to_owned());
        }
        releases
    }

    fn of(reference: &str) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        tkc.spec.topology.control_plane.tkr = Some(api::gcm::parts::Tkr::named(reference));
        tkc
    }

    #[test]
    fn a_prefix_means_the_newest_release_that_admission_accepts() {
        let (all, flags) = (releases(), VirtualIpFlags::default());
        let old = of("v1.34.2---vmware.1-vkr.1");
        let chosen = |text: &str| {
            let new = of(text);
            let choices = choices(&new, Some(&old), &all, Some(&flags));
            resolution::resolve_release(intended_request(&new, Some(&old)), &choices)
                .map(|release| release.version.to_string())
        };
        assert_eq!(chosen("v1.35").unwrap(), SAME_PROGRAM);
        assert_eq!(chosen("v1").unwrap(), RUNS, "it runs that already");
        assert_eq!(chosen("v1.36").unwrap(), TOO_NEW, "admission says why not");
        assert_eq!(chosen("v1.35.4---layercake.1").unwrap(), OTHER_PROGRAM, "admission says why not");
        assert_eq!(chosen("v1.35.4").unwrap(), OTHER_PROGRAM);
    }

    #[test]
    fn updates_are_those_that_admission_accepts() {
        let (all, flags) = (releases(), VirtualIpFlags::default());
        let installed = InstalledReleases { available: &all, bundles: None, virtual_ip: Some(&flags) };
        let current = current_version(&of("v1.34.2---vmware.1-vkr.1")).unwrap();
        let updates = installed.updates(&of("v1.34.2---vmware.1-vkr.1"), &current);
        assert_eq!(updates.iter().map(ToString::to_string).collect::<Vec<_>>(), [SAME_PROGRAM]);
    }
}
