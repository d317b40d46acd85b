//! The release of a cluster.

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::Tkr;
use api::names::annotation;
use kube::ResourceExt;

use crate::release::resolution::ReleaseRequest;
use crate::release::version::Version;

/// The release that the cluster asks for, as it is written.
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

/// The version the cluster runs according to its spec.
pub fn current_version(tkc: &TanzuKubernetesCluster) -> Option<Version> {
    release_request(tkc).exact()
}
