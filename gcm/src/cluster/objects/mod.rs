//! The objects a cluster is made of, as documents.
//!
//! They are written as the JSON they are sent as, which reads like the manifests people know, and turned into the
//! generated types, so that a test can show that Cluster API knows every field.

pub mod accounts;
pub mod cluster;
pub mod kubeadm;
pub mod machines;

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::names::{self, label};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::releases::{NodeImage, Release};
use crate::version::Version;

/// Everything that the objects of one cluster are made from.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The cluster as it is asked for, defaults filled in.
    pub tkc: &'a TanzuKubernetesCluster,
    /// The release it resolves to.
    pub release: &'a Release,
    /// The image its nodes are made from.
    pub image: &'a NodeImage,
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
    fn release_label(&self) -> String {
        release_label(&self.release.offer.version)
    }

    /// Metadata of an object of the cluster: its name, what it belongs to, and its controller.
    fn metadata(&self, name: &str, labels: &[(&str, &str)]) -> Value {
        let mut all = BTreeMap::from([(label::CLUSTER_NAME.to_owned(), self.name())]);
        all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        json!({
            "name": name,
            "namespace": self.namespace(),
            "labels": all,
            "ownerReferences": [kit::apply::controlled_by(self.tkc)],
        })
    }
}

/// The value of the label that tells which release an object is about; a release written by hand may have a name of
/// its own, and a version may be longer than a label.
pub fn release_label(version: &Version) -> String {
    names::joined(&version.object_name(), "", names::MAX_MACHINE_NAME)
}

/// An object of a generated type from its metadata and spec.
fn object<K>(metadata: &Value, spec: &Value) -> Result<K, serde_json::Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize,
{
    serde_json::from_value(json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": metadata,
        "spec": spec,
    }))
}
