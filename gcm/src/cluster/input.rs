//! The input for all objects of one cluster.

use std::collections::BTreeMap;

use api::capi::ContractReference;
use api::gcm::TanzuKubernetesCluster;
use api::names::{self, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use super::spec::ValidatedCluster;
use crate::release::version::Version;
use crate::release::{KubernetesRelease, ReleaseImage};
use crate::spec::network::ClusterNetwork;

/// The cluster, release and image from which a cluster's objects are built.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The cluster, including its defaults.
    pub tkc: &'a TanzuKubernetesCluster,
    pub network: ClusterNetwork<'a>,
    /// The release that the cluster resolves to.
    pub release: &'a KubernetesRelease,
    /// The node image.
    pub image: &'a ReleaseImage,
}

impl<'a> Input<'a> {
    /// Returns the input for the objects of a validated cluster.
    pub fn new(
        cluster: &'a ValidatedCluster,
        release: &'a KubernetesRelease,
        image: &'a ReleaseImage,
    ) -> Self {
        Self { tkc: cluster.tkc(), network: cluster.network(), release, image }
    }

    pub fn namespace(&self) -> String {
        self.tkc.namespace().unwrap_or_default()
    }

    pub fn name(&self) -> String {
        self.tkc.name_any()
    }

    /// Returns the value of the release label for the cluster's objects.
    pub fn release_label(&self) -> String {
        release_label(&self.release.candidate.version)
    }

    /// Returns object metadata with the cluster's namespace, the cluster name label and a controller reference.
    pub fn metadata(&self, name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        let mut all = BTreeMap::from([(label::CLUSTER_NAME.to_owned(), self.name())]);
        all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace()),
            labels: Some(all),
            owner_references: Some(vec![kit::apply::build_controller_reference(self.tkc)]),
            ..ObjectMeta::default()
        }
    }
}

/// Returns the value of the release label. The value is derived from the version, because a hand-written release may have
/// another name, and shortened, because a version can be longer than a label value.
pub fn release_label(version: &Version) -> String {
    names::joined(&version.object_name(), "", names::MAX_MACHINE_NAME)
}

/// Returns a reference as the v1beta2 contract defines it, without a version or namespace.
pub fn reference_to<K: Resource<DynamicType = ()>>(name: &str) -> ContractReference {
    ContractReference {
        api_group: K::group(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
    }
}

/// Returns the string from which the object name for a spec is computed: JSON with sorted keys.
///
/// The string must not change between versions of gcm: it determines the name, and with another name, Cluster API would replace
/// every machine.
pub fn content_of(spec: &impl Serialize) -> String {
    // Serialization fails only for maps with non-string keys, which specs don't contain.
    serde_json::to_value(spec).map(|spec| spec.to_string()).unwrap_or_default()
}
