//! What the objects of one cluster are made from.

use std::collections::{BTreeMap, BTreeSet};

use api::capi::ContractReference;
use api::gcm::TanzuKubernetesCluster;
use api::names::{self, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use super::virtual_ip::VirtualIp;
use crate::cluster::health_flags::HealthFlags;
use crate::cluster::login::Login;
use crate::releases::{KubernetesRelease, ReleaseImage};
use crate::version::Version;

/// Everything that the objects of one cluster are made from.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The cluster as it is asked for, defaults filled in.
    pub tkc: &'a TanzuKubernetesCluster,
    /// The release it resolves to.
    pub release: &'a KubernetesRelease,
    /// Whether pools stay what they are, since the control plane goes on to another release after this.
    pub pools_wait: bool,
    /// The image its nodes are made from.
    pub image: &'a ReleaseImage,
    /// When its nodes are replaced.
    pub health: &'a HealthFlags,
    /// What holds the address of its control plane.
    pub virtual_ip: &'a VirtualIp,
    /// The pools of which no node is replaced at the moment, by name.
    pub unreplaced: &'a BTreeSet<String>,
    /// How people get into its nodes.
    pub login: &'a Login,
}

impl Input<'_> {
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
