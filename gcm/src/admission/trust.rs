//! Checks that gcm knows the trust store of a cluster's node image if the cluster has additional certificate authorities (CAs).

use api::gcm::TanzuKubernetesCluster;
use bounds::printable;

use super::denial::FieldDenial;
use super::node_images::chosen;
use super::queries::SHOWN;
use super::version;
use crate::release::node_image::ReleaseImage;
use crate::release::resolution::{self, AvailableRelease};
use crate::release::trust_store::TrustStore;
use crate::spec::network::ClusterNetwork;
use crate::spec::release::{current_version, release_request};

const FIELD: &str = "spec.settings.network.trust.additionalTrustedCAs";

/// Returns the denial for CAs that new nodes would not trust. If the CAs are unchanged and the current nodes don't trust them
/// either, the cluster only gets a warning.
pub(super) fn denial(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Option<FieldDenial> {
    let release = resolution::resolve_release(version::intended_request(new, old), available).ok()?;
    let system = unknown_system(new, chosen(new, release)?)?;
    let has_such_nodes = |old: &TanzuKubernetesCluster| {
        let version = current_version(old);
        let release = available.iter().find(|release| Some(&release.version) == version.as_ref());
        trust(old) == trust(new)
            && release.and_then(|release| unknown_system(old, chosen(old, release)?)).is_some()
    };
    if old.is_some_and(has_such_nodes) {
        return None;
    }
    let reason = format!(
        "the node image of {} has the operating system {system:?}, on which gcm cannot add authorities to the trust store",
        release.version.object_name()
    );
    let remedy = format!(
        "Choose another image with the annotation run.tanzu.vmware.com/resolve-os-image (supported: {}), or add the authorities when you build the image, and leave this field out",
        TrustStore::SUPPORTED
    );
    Some(FieldDenial::new(FIELD, reason, remedy))
}

/// Returns a warning about CAs that nodes might not trust.
pub(super) fn warning(tkc: &TanzuKubernetesCluster, available: &[AvailableRelease]) -> Option<String> {
    let release = resolution::resolve_release(release_request(tkc), available).ok()?;
    let image = chosen(tkc, release)?;
    let system = match unknown_system(tkc, image) {
        Some(system) => format!("an operating system ({system:?}) whose trust store gcm does not know"),
        None if is_trusting(tkc) && !image.labels.contains_key("os-name") => {
            "no label os-name, which names its operating system".to_owned()
        }
        None => return None,
    };
    Some(format!(
        "{FIELD}: the node image of {} has {system}. Nodes run update-ca-certificates, as on Debian; if this program does not read /etc/ssl/certs or /usr/local/share/ca-certificates, they do not trust these authorities",
        release.version.object_name()
    ))
}

/// Returns the name of the image's operating system if gcm doesn't know its trust store. Returns `None` if it does, or if the
/// cluster doesn't have additional CAs.
fn unknown_system(tkc: &TanzuKubernetesCluster, image: &ReleaseImage) -> Option<String> {
    let name = image.labels.get("os-name")?;
    (is_trusting(tkc) && TrustStore::of(&image.labels).is_none()).then(|| printable(name, SHOWN))
}

fn trust(tkc: &TanzuKubernetesCluster) -> Option<&api::gcm::parts::Trust> {
    ClusterNetwork::read(&tkc.spec).trust
}

fn is_trusting(tkc: &TanzuKubernetesCluster) -> bool {
    trust(tkc).is_some_and(|trust| trust.additional_trusted_cas.iter().flatten().next().is_some())
}

#[cfg(test)]
mod tests {
    use api::gcm::parts::{Tkr, Trust};
    use serde_json::json;

    use super::*;
    use crate::testing::{SITE_VERSIONS, available, node_image, sound};

    const V33: &str = "v1.33.1+vmware.1-fips-vkr.2";
    const V34: &str = "v1.34.2+vmware.1-vkr.1";

    fn image(os: Option<&str>) -> ReleaseImage {
        node_image("image", os.map(|os| ("os-name", os)).as_slice())
    }

    fn releases(of_33: Option<&str>, of_34: Option<&str>) -> Vec<AvailableRelease> {
        let mut releases = available(&SITE_VERSIONS);
        for (version, os) in [(V33, of_33), (V34, of_34)] {
            let release = releases.iter_mut().find(|release| release.version.to_string() == version);
            release.unwrap().images = vec![image(os)];
        }
        releases
    }

    fn cluster(version: &str, authority: Option<&str>) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        tkc.spec.topology.control_plane.tkr = Some(Tkr::named(version.replace('+', "---")));
        let trust: Option<Trust> = authority.map(|name| {
            serde_json::from_value(json!({"additionalTrustedCAs": [{"name": name, "data": "x"}]})).unwrap()
        });
        tkc.spec.settings.as_mut().unwrap().network.as_mut().unwrap().trust = trust;
        tkc
    }

    #[test]
    fn authorities_that_nodes_would_not_trust_are_refused() {
        let (suse, known) = (releases(Some("sles"), Some("sles")), releases(Some("rhel"), Some("sles")));
        let trusting = cluster(V33, Some("a"));
        let refused = denial(&trusting, None, &suse).unwrap().to_string();
        assert!(
            refused.starts_with(FIELD) && refused.contains("\"sles\"") && refused.contains("rockylinux"),
            "{refused}"
        );
        assert_eq!(denial(&cluster(V33, None), None, &suse), None);
        assert_eq!(denial(&trusting, None, &known), None);
        let (other, next) = (cluster(V33, Some("b")), cluster(V34, Some("a")));
        assert!(denial(&other, Some(&trusting), &suse).is_some(), "another authority");
        assert!(denial(&next, Some(&trusting), &known).is_some(), "its nodes trust it so far");
        assert_eq!(denial(&next, Some(&trusting), &suse), None, "they never did");
        assert!(warning(&next, &suse).unwrap().contains("whose trust store gcm does not know"));
        assert_eq!(warning(&trusting, &known), None);
    }

    #[test]
    fn an_image_that_names_no_system_is_warned_of() {
        let unlabelled = releases(None, None);
        let trusting = cluster(V33, Some("a"));
        assert_eq!(denial(&trusting, None, &unlabelled), None);
        assert!(warning(&trusting, &unlabelled).unwrap().contains("no label os-name"));
        assert_eq!(warning(&cluster(V33, None), &unlabelled), None);
    }
}
