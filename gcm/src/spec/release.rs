//! A cluster's release.

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::Tkr;
use api::names::annotation;
use kube::ResourceExt;

use crate::release::resolution::ReleaseRequest;
use crate::release::version::Version;

/// Returns the release that the cluster requests, as written.
pub fn release_request(tkc: &TanzuKubernetesCluster) -> ReleaseRequest<'_> {
    let distribution = tkc.spec.distribution.as_ref();
    let reference = tkc.spec.topology.control_plane.tkr.as_ref();
    let query = |key| tkc.annotations().get(key).map(String::as_str).unwrap_or_default();
    ReleaseRequest {
        full: distribution.and_then(|d| d.full_version.as_deref()).unwrap_or_default(),
        hint: distribution.and_then(|d| d.version.as_deref()).unwrap_or_default(),
        reference: reference.and_then(Tkr::name).unwrap_or_default(),
        query: query(annotation::RESOLVE_TKR),
        os_image: query(annotation::RESOLVE_OS_IMAGE),
    }
}

/// Returns the complete version in the cluster's spec. Admission sets it to the release that the request resolves to.
pub fn current_version(tkc: &TanzuKubernetesCluster) -> Option<Version> {
    release_request(tkc).exact()
}
