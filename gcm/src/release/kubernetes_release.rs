//! Parses a TanzuKubernetesRelease into the form that clusters use.

use api::gcm::TanzuKubernetesRelease;
use api::gcm::release::{ContainerImage, KubernetesSpec};
use api::names::{annotation, label};
use kube::ResourceExt;

use super::resolution::{self, AvailableRelease};
use super::version::{NotAVersion, Version};

/// A parsed release.
#[derive(Clone, Debug, PartialEq)]
pub struct KubernetesRelease {
    /// The facts that resolution uses.
    pub candidate: AvailableRelease,
    /// The Kubernetes version with the prefix `v`.
    pub kubernetes: String,
    /// The repository for Kubernetes container images.
    pub image_repository: Option<String>,
    pub etcd: Option<ContainerImage>,
    pub coredns: Option<ContainerImage>,
    /// The names of the release's OSImages, in the order in which the release lists them.
    pub os_images: Vec<String>,
}

impl KubernetesRelease {
    /// Parses a release object.
    pub fn of(tkr: &TanzuKubernetesRelease) -> Result<Self, NotAVersion> {
        let version = Version::parse(&tkr.spec.version)?;
        let kubernetes = match Version::parse(&tkr.spec.kubernetes.version) {
            Ok(kubernetes) => kubernetes,
            Err(_) if tkr.spec.kubernetes.version.is_empty() => version.clone(),
            Err(error) => return Err(error),
        };
        let mut candidate = AvailableRelease::of(version);
        candidate.incompatible = marked(tkr).or_else(|| resolution::explain_incompatibility(&kubernetes));
        candidate.labels.extend(tkr.labels().clone());
        candidate.kube_vip = kube_vip(&tkr.spec.kubernetes);
        Ok(Self {
            candidate,
            kubernetes: kubernetes.to_string(),
            image_repository: tkr.spec.kubernetes.image_repository.clone(),
            etcd: tkr.spec.kubernetes.etcd.clone(),
            coredns: tkr.spec.kubernetes.coredns.clone(),
            os_images: tkr.spec.os_images.iter().map(|reference| reference.name.clone()).collect(),
        })
    }
}

/// Returns the kube-vip container image, if the release names its tag and a repository.
fn kube_vip(kubernetes: &KubernetesSpec) -> Option<String> {
    let image = kubernetes.kube_vip.as_ref()?;
    let repository = image.image_repository.as_ref().or(kubernetes.image_repository.as_ref())?;
    Some(format!("{repository}/kube-vip:{}", image.image_tag.as_ref()?))
}

/// Returns the reason why the release must not be used, if a label says so.
fn marked(tkr: &TanzuKubernetesRelease) -> Option<String> {
    let labels = tkr.labels();
    let marks = [
        label::INCOMPATIBLE,
        label::DEACTIVATED,
        label::DELETED,
        label::INVALID,
        label::CONFLICTING_OS_IMAGES,
    ];
    marks.iter().find(|mark| labels.contains_key(**mark)).map(|mark| {
        match tkr.annotations().get(annotation::INCOMPATIBLE_REASON) {
            Some(reason) if *mark == label::INCOMPATIBLE => {
                format!("the release is labelled {mark}: {reason}")
            }
            _ => format!("the release is labelled {mark}"),
        }
    })
}
