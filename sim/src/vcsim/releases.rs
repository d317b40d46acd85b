//! The Kubernetes releases that the site's content library offers.
//!
//! The list is broad on purpose: it contains releases that are too old for Cluster API, names that occur in published manifests,
//! and current releases. OVF properties contain the release data, as in real node images.

use std::collections::BTreeSet;

use nodeimage::{SYSTEMS, SupportedRelease, image_names, properties};
use serde_json::{Value, json};

use super::addons::{Addons, REPOSITORY, inline, packed};
use crate::kubeadm_images::{COMPONENTS, DefaultTags, kubeadm_images, minor};

/// A node image, which is one content library item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeImage<'a> {
    /// The library item name, which is also the VirtualMachineImage name.
    pub item: &'a str,
    /// The release version, for example `v1.23.8+vmware.3-tkg.1`.
    pub version: &'a str,
    /// The Kubernetes version in the image, for example `v1.23.8+vmware.3`.
    pub kubernetes: &'a str,
    /// The kube-vip image tag, if the release specifies one.
    pub kube_vip: Option<&'static str>,
    /// The guest operating system.
    pub os: Os,
    /// The format of the release data in the OVF properties.
    pub shape: Shape,
}

/// The operating system in a node image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Os {
    /// Photon 3.
    Photon3,
    /// Photon 5.
    Photon5,
    /// Ubuntu 22.04.
    Ubuntu2204,
    /// Debian 13.
    Debian13,
}

impl Os {
    /// Returns the name, the version and the vSphere guest id.
    pub fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Photon3 => ("photon", "3.0", "vmwarePhoton64Guest"),
            Self::Photon5 => ("photon", "5.0", "vmwarePhoton64Guest"),
            Self::Ubuntu2204 => ("ubuntu", "22.04", "ubuntu64Guest"),
            Self::Debian13 => ("debian", "13", "debian12_64Guest"),
        }
    }
}

/// The builder of a node image, which determines its container images and the format of its release data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// VMware, for vSphere 7: a JSON property, `vmware-system.guest.kubernetes.distribution.image.version`, and add-on manifests.
    Distribution,
    /// VMware, for vSphere 8: the vSphere 7 property, the manifests of the release and the OS image in
    /// `vmware-system.tkr` and `vmware-system.tkr.osi`, and add-on Packages.
    Embedded,
    /// image-builder: one property per value, for example `KUBERNETES_SEMVER`.
    ImageBuilder,
    /// `layercake image build`: the properties that [`nodeimage::properties`] returns.
    Layercake,
}

/// Returns a VMware node image. The arguments are the shape, the OS, the item name prefix, and the versions of
/// Kubernetes, VMware's build and the image. The versions are part of the item name and the release name.
macro_rules! of_vmware {
    ($shape:ident, $os:ident, $start:literal, $kubernetes:literal, $build:literal, $image:literal) => {
        image_of_shape(
            Shape::$shape,
            concat!($start, $kubernetes, "---", $build, "-", $image),
            concat!($kubernetes, "+", $build, "-", $image),
            concat!($kubernetes, "+", $build),
            Os::$os,
        )
    };
}

/// The node images that every site with simulated nodes offers.
pub const NODE_IMAGES: &[NodeImage<'_>] = &[
    of_vmware!(Distribution, Photon3, "photon-3-k8s-", "v1.17.4", "vmware.1", "tkg.1.0dba899"),
    of_vmware!(Distribution, Photon3, "ob-17658793-photon-3-k8s-", "v1.18.15", "vmware.1", "tkg.1.600e412"),
    of_vmware!(Distribution, Photon3, "ob-19344082-photon-3-k8s-", "v1.20.12", "vmware.1", "tkg.1.b9a42f3"),
    of_vmware!(Distribution, Photon3, "ob-18592554-photon-3-k8s-", "v1.21.2", "vmware.1", "tkg.1.ee25d55"),
    of_vmware!(Distribution, Photon3, "ob-18903450-photon-3-k8s-", "v1.21.6", "vmware.1", "tkg.1.b3d708a"),
    of_vmware!(Distribution, Photon3, "ob-20016746-photon-3-k8s-", "v1.22.9", "vmware.1", "tkg.1.cc71bc8"),
    of_vmware!(Distribution, Photon3, "ob-20611023-photon-3-k8s-", "v1.23.8", "vmware.3", "tkg.1"),
    of_vmware!(Distribution, Photon3, "ob-22187091-photon-3-k8s-", "v1.26.5", "vmware.2-fips.1", "tkg.1"),
    image_of_shape(Shape::ImageBuilder, "ubuntu-2204-kube-v1.29.4", "v1.29.4", "v1.29.4", Os::Ubuntu2204),
    image_of_shape(Shape::ImageBuilder, "photon-5-kube-v1.31.4", "v1.31.4", "v1.31.4", Os::Photon5),
    image_of_shape(Shape::ImageBuilder, "ubuntu-2204-kube-v1.31.4", "v1.31.4", "v1.31.4", Os::Ubuntu2204),
    image_of_shape(
        Shape::Layercake,
        "debian-13-amd64-v1.35.4---layercake.1",
        "v1.35.4+layercake.1",
        "v1.35.4",
        Os::Debian13,
    ),
    image_of_shape(
        Shape::Layercake,
        "debian-13-amd64-v1.36.3---layercake.1",
        "v1.36.3+layercake.1",
        "v1.36.3",
        Os::Debian13,
    ),
    of_vmware!(Embedded, Photon5, "ob-24026550-photon-5-amd64-", "v1.30.1", "vmware.1-fips", "tkg.5"),
    of_vmware!(Embedded, Photon5, "ob-24613402-photon-5-amd64-", "v1.32.0", "vmware.6-fips", "vkr.2"),
    of_vmware!(Embedded, Photon5, "ob-24892153-photon-5-amd64-", "v1.33.1", "vmware.1-fips", "vkr.2"),
    of_vmware!(Embedded, Ubuntu2204, "ob-24892154-ubuntu-2204-amd64-", "v1.33.1", "vmware.1-fips", "vkr.2"),
    NodeImage {
        kube_vip: Some("v0.8.9_vmware.1"),
        ..of_vmware!(Embedded, Photon5, "ob-25037201-photon-5-amd64-", "v1.34.2", "vmware.1", "vkr.1")
    },
    of_vmware!(Embedded, Photon5, "ob-25160311-photon-5-amd64-", "v1.35.1", "vmware.1", "vkr.1"),
    of_vmware!(Embedded, Photon5, "ob-25310047-photon-5-amd64-", "v1.36.3", "vmware.1", "vkr.1"),
];

/// A second image for a release in [`NODE_IMAGES`], in a separate library.
pub const SHARED_IMAGE: NodeImage<'_> =
    of_vmware!(Embedded, Ubuntu2204, "ob-24613403-ubuntu-2204-amd64-", "v1.32.0", "vmware.6-fips", "vkr.2");

pub(super) const fn image<'a>(item: &'a str, version: &'a str, kubernetes: &'a str, os: Os) -> NodeImage<'a> {
    NodeImage { item, version, kubernetes, kube_vip: None, os, shape: Shape::Distribution }
}

/// Returns a node image with release data in the format `shape`.
const fn image_of_shape<'a>(
    shape: Shape,
    item: &'a str,
    version: &'a str,
    kubernetes: &'a str,
    os: Os,
) -> NodeImage<'a> {
    NodeImage { shape, ..image(item, version, kubernetes, os) }
}

impl NodeImage<'_> {
    /// Returns the TanzuKubernetesRelease name: the version with `---` instead of `+`.
    pub fn release(&self) -> String {
        self.version.replace('+', "---")
    }

    /// Returns the container images on the disk, by name and tag. sim/README.md documents the source of each list.
    pub fn container_images(&self) -> BTreeSet<String> {
        match self.shape {
            Shape::Distribution | Shape::Embedded => self.images_of_vmware(),
            Shape::ImageBuilder => kubeadm_images(self.kubernetes).into_iter().collect(),
            Shape::Layercake => self.own_release().map(image_names).unwrap_or_default().into_iter().collect(),
        }
    }

    fn images_of_vmware(&self) -> BTreeSet<String> {
        let [etcd, coredns, pause] = self.tags();
        let tag = self.kubernetes.replace('+', "_");
        let named = [("etcd", etcd), ("coredns", coredns), ("pause", pause)];
        let kube_vip = self.kube_vip.map(|tag| ("kube-vip", tag.to_owned()));
        COMPONENTS
            .into_iter()
            .map(|name| (name, tag.clone()))
            .chain(named)
            .chain(kube_vip)
            .map(|(name, tag)| format!("{REPOSITORY}/{name}:{tag}"))
            .chain(self.addons().container_images())
            .collect()
    }

    /// Returns the etcd, CoreDNS and pause image tags: kubeadm's default versions in VMware's tag format.
    fn tags(&self) -> [String; 3] {
        let minor = minor(self.kubernetes);
        let DefaultTags { etcd, coredns, pause } = DefaultTags::of(minor);
        let etcd = etcd.split('-').next().unwrap_or(etcd);
        [format!("v{etcd}_vmware.1"), format!("{coredns}_vmware.1"), pause.to_owned()]
    }

    fn addons(&self) -> Addons {
        Addons::of(minor(self.kubernetes))
    }

    /// Returns the release from which `layercake image build` builds this image, or `None` if it can't build this
    /// Kubernetes version.
    fn own_release(&self) -> Option<&'static SupportedRelease> {
        SupportedRelease::find(self.kubernetes).ok()
    }

    /// Returns the OVF properties (key and value) that describe the release.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        match self.shape {
            Shape::Distribution => self.properties_of_vmware(self.addons().manifests()),
            Shape::Embedded => self.properties_of_vmware(self.embedded_properties()),
            Shape::ImageBuilder => self.properties_of_image_builder(),
            Shape::Layercake => {
                let of_release = |release| properties(&SYSTEMS[0], release, self.version);
                self.own_release().map(of_release).unwrap_or_default()
            }
        }
    }

    fn properties_of_vmware(&self, further: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
        let (os, os_version, _) = self.os.facts();
        let mut all = vec![
            ("vmware-system.guest.kubernetes.distribution.image.version", self.distribution().to_string()),
            ("vmware-system.tkr.os-name", os.to_owned()),
            ("vmware-system.tkr.os-version", os_version.to_owned()),
            ("vmware-system.tkr.os-type", "linux".to_owned()),
            ("vmware-system.tkr.os-arch", "amd64".to_owned()),
        ];
        all.extend(further);
        all
    }

    /// Returns the properties that only vSphere 8 images contain: the manifests of the release, the OS image and the
    /// ClusterBootstrapTemplate, and the Packages to which the template refers.
    fn embedded_properties(&self) -> Vec<(&'static str, String)> {
        let name = self.release();
        let os_image = packed(&self.embedded_os_image().to_string());
        let os_image = json!({"name": self.os_image(), "value": os_image});
        let object = |object: Value| inline(&name, self.version, &format!("---\n{object}"));
        let mut all = vec![
            ("vmware-system.tkr", object(self.embedded_release())),
            ("vmware-system.tkr.cbt", object(self.cluster_bootstrap_template())),
            ("vmware-system.tkr.osi", json!([os_image]).to_string()),
        ];
        all.extend(self.addons().packages());
        all
    }

    fn cluster_bootstrap_template(&self) -> Value {
        let package = |name: String| json!({"refName": name});
        let packages: Vec<_> = self.addons().package_names().map(package).collect();
        json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3",
            "kind": "ClusterBootstrapTemplate",
            "metadata": {"name": self.release()},
            "spec": {"additionalPackages": packages},
        })
    }

    fn properties_of_image_builder(&self) -> Vec<(&'static str, String)> {
        let (os, os_version, _) = self.os.facts();
        let all = [
            ("KUBERNETES_SEMVER", self.kubernetes),
            ("KUBERNETES_SOURCE_TYPE", "pkg"),
            ("DISTRO_NAME", os),
            ("DISTRO_VERSION", os_version),
            ("DISTRO_ARCH", "amd64"),
        ];
        all.map(|(key, value)| (key, value.to_owned())).to_vec()
    }

    fn distribution(&self) -> Value {
        let [etcd, coredns, _] = self.tags();
        json!({
            "distribution": {"version": self.version},
            "kubernetes": {"version": self.kubernetes, "imageRepository": REPOSITORY},
            "etcd": {"imageRepository": REPOSITORY, "version": etcd},
            "coredns": {"imageRepository": REPOSITORY, "version": coredns},
            "compatibility-7.0.0.10100": {"isCompatible": "true"},
        })
    }

    fn embedded_release(&self) -> Value {
        let [etcd, coredns, pause] = self.tags();
        let packages: Vec<_> = self.addons().package_names().map(|name| json!({"name": name})).collect();
        let mut release = json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3",
            "kind": "TanzuKubernetesRelease",
            "metadata": {"name": self.release()},
            "spec": {
                "version": self.version,
                "kubernetes": {
                    "version": self.kubernetes,
                    "imageRepository": REPOSITORY,
                    "etcd": {"imageTag": etcd},
                    "coredns": {"imageTag": coredns},
                    "pause": {"imageTag": pause},
                },
                "osImages": [{"name": self.os_image()}],
                "bootstrapPackages": packages,
            },
        });
        if let Some(tag) = self.kube_vip {
            release["spec"]["kubernetes"]["kube-vip"] = json!({"imageTag": tag});
        }
        release
    }

    fn os_image(&self) -> String {
        let (os, version, _) = self.os.facts();
        format!("{os}-{version}-amd64-{}", self.release())
    }

    fn embedded_os_image(&self) -> Value {
        let (os, version, _) = self.os.facts();
        json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3",
            "kind": "OSImage",
            "metadata": {"name": self.os_image()},
            "spec": {
                "kubernetesVersion": self.kubernetes,
                "os": {"type": "linux", "name": os, "version": version, "arch": "amd64"},
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_keys_and_item_names_fit_vsphere() {
        for image in NODE_IMAGES {
            assert!(image.item.len() <= 80, "{} is longer than a vSphere name may be", image.item);
            assert!(image.item.ends_with(&image.release()), "{} does not name its release", image.item);
            assert!(image.properties().iter().all(|(key, _)| key.len() <= 62));
        }
    }
}
