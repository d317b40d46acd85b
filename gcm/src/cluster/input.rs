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
use crate::spec::network::NetworkSpec;

/// The input for all objects of one cluster.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The cluster, with its defaults filled in.
    pub tkc: &'a TanzuKubernetesCluster,
    /// The network of the cluster.
    pub network: NetworkSpec<'a>,
    /// The release it resolves to.
    pub release: &'a KubernetesRelease,
    /// The image its nodes are made from.
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

    /// The cluster's namespace.
    pub fn namespace(&self) -> String {
        self.tkc.namespace().unwrap_or_default()
    }

    /// The cluster's name.
    pub fn name(&self) -> String {
        self.tkc.name_any()
    }

    /// The value of its objects' release label.
    pub fn release_label(&self) -> String {
        release_label(&self.release.candidate.version)
    }

    /// Metadata of an object of the cluster: its name, what it belongs to, and its controller.
    pub fn metadata(&self, name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        let mut all = BTreeMap::from([(label::CLUSTER_NAME.to_owned(), self.name())]);
        all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace()),
            labels: Some(all),
            owner_references: Some(vec![kit::apply::controlled_by(self.tkc)]),
            ..ObjectMeta::default()
        }
    }
}

/// The value of the label that names the release of an object; a release written by hand may have a name of
/// its own, and a version may be longer than a label.
pub fn release_label(version: &Version) -> String {
    names::joined(&version.object_name(), "", names::MAX_MACHINE_NAME)
}

/// Returns a reference to the object of this kind and name, as contract v1beta2 has them: without version and namespace.
pub fn reference_to<K: Resource<DynamicType = ()>>(name: &str) -> ContractReference {
    ContractReference {
        api_group: K::group(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
    }
}

/// The text that stands for the content of a spec in the name of its object: JSON with sorted keys.
///
/// The text must stay as it is: another one is another name, and every machine of the cluster would be replaced.
pub fn content_of(spec: &impl Serialize) -> String {
    // Only a map whose keys are no texts cannot become JSON, and specs have none.
    serde_json::to_value(spec).map(|spec| spec.to_string()).unwrap_or_default()
}
