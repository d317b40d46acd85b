//! Detects whether a TanzuKubernetesCluster is the one that its cluster was created from.
//!
//! `clusterctl move` copies the TanzuKubernetesCluster before the Cluster and the other objects. In the meantime, a second
//! cluster with the same name and other keys must not be created. An annotation therefore records the uid of the
//! TanzuKubernetesCluster before anything is created from it. A copy has another uid.
//!
//! The same write records the cluster id, which a copy inherits from the original.

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, finalizer};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::error::Error;
use crate::cluster::facts::Facts;
use crate::spec::authentication::note_issuers;

/// The origin of a TanzuKubernetesCluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The TanzuKubernetesCluster was created here, as its annotation says.
    Here,
    /// The TanzuKubernetesCluster was created here, or moved here with its Cluster. The annotation must be written.
    Unnoted,
    /// The TanzuKubernetesCluster was copied from another management cluster, and its Cluster isn't here yet.
    Arriving,
}

/// The record to write before objects are created: the finalizer, and the annotations for origin, id and issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRecord {
    /// All finalizers of the object.
    finalizers: Vec<String>,
    annotations: BTreeMap<&'static str, String>,
}

impl OriginRecord {
    /// Returns the merge patch that writes the record.
    pub fn patch(&self) -> Value {
        json!({ "metadata": { "finalizers": self.finalizers, "annotations": self.annotations } })
    }

    /// Returns the TanzuKubernetesCluster as it is after the record is written.
    pub fn added_to(&self, tkc: &TanzuKubernetesCluster) -> TanzuKubernetesCluster {
        let mut tkc = tkc.clone();
        tkc.finalizers_mut().clone_from(&self.finalizers);
        let annotations = self.annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        tkc.annotations_mut().extend(annotations);
        tkc
    }
}

/// Returns true if the TanzuKubernetesCluster is a copy whose Cluster isn't here yet.
pub fn is_arriving(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    origin(tkc, facts) == Origin::Arriving
}

fn origin(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Origin {
    match tkc.annotations().get(annotation::MADE_AS) {
        Some(uid) if Some(uid) == tkc.metadata.uid.as_ref() => Origin::Here,
        Some(_) if facts.cluster.is_none() => Origin::Arriving,
        _ => Origin::Unnoted,
    }
}

/// Returns the cluster id: the uid of the TanzuKubernetesCluster from which the cluster was first created.
pub fn cluster_id(tkc: &TanzuKubernetesCluster) -> Option<&String> {
    tkc.annotations().get(annotation::CLUSTER_ID).or(tkc.metadata.uid.as_ref())
}

/// Returns true if the cluster's objects were never created, here or elsewhere.
fn is_new(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let Facts { cluster, control_plane, .. } = facts;
    !tkc.annotations().contains_key(annotation::MADE_AS) && cluster.is_none() && control_plane.is_none()
}

/// Returns the record to write, or `None` if it is written already.
///
/// # Errors
/// Returns [`Error::Arriving`] if this is a copy whose Cluster hasn't arrived yet.
pub fn record(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Result<Option<OriginRecord>, Error> {
    let origin = origin(tkc, facts);
    if origin == Origin::Arriving {
        let name = tkc.name_any();
        return Err(Error::Arriving(format!(
            "this TanzuKubernetesCluster is a copy of one that already has a cluster, and gcm waits for Cluster {name} to be moved here, as `clusterctl move` does. To create a new cluster instead, remove the annotation {}",
            annotation::MADE_AS
        )));
    }
    let mut finalizers = tkc.finalizers().to_vec();
    let marked = finalizers.iter().any(|there| there == finalizer::TKC);
    let issuers = note_issuers(tkc);
    let has_id = tkc.annotations().contains_key(annotation::CLUSTER_ID);
    if marked && origin == Origin::Here && has_id && issuers.is_none() {
        return Ok(None);
    }
    if !marked {
        finalizers.push(finalizer::TKC.to_owned());
    }
    // The id of a new cluster's manifest was copied from another cluster, so replace it.
    let id = if is_new(tkc, facts) { tkc.metadata.uid.as_ref() } else { cluster_id(tkc) };
    let annotations = [
        (annotation::MADE_AS, tkc.metadata.uid.clone()),
        (annotation::CLUSTER_ID, id.cloned()),
        (annotation::API_SERVER, issuers.map(str::to_owned)),
    ];
    let annotations = annotations.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Ok(Some(OriginRecord { finalizers, annotations }))
}

#[cfg(test)]
mod tests {
    use api::gcm::authentication::AuthenticationSettings;

    use super::*;
    use crate::cluster::fixtures::{ClusterFixture, nothing};
    use crate::testing::{issuer, sound};

    /// Returns a cluster with the uid `here` and these annotations.
    fn here(annotations: &[(&str, &str)]) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        tkc.metadata.uid = Some("here".to_owned());
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        tkc.annotations_mut().extend(annotations);
        tkc
    }

    #[test]
    fn a_copy_waits_for_its_cluster_and_stays_where_that_has_come() {
        let with = |made_as: Option<&str>| here(made_as.map(|uid| (annotation::MADE_AS, uid)).as_slice());
        let (none, there) = (nothing(), ClusterFixture::running(sound()).facts());
        assert_eq!(origin(&with(None), &none), Origin::Unnoted, "a new one");
        assert_eq!(origin(&with(None), &there), Origin::Unnoted, "a user removed the annotation");
        assert_eq!(origin(&with(Some("here")), &none), Origin::Here, "somebody deleted its Cluster");
        assert_eq!(origin(&with(Some("here")), &there), Origin::Here);
        assert_eq!(origin(&with(Some("elsewhere")), &none), Origin::Arriving);
        assert_eq!(origin(&with(Some("elsewhere")), &there), Origin::Unnoted, "it has arrived");
    }

    #[test]
    fn the_id_of_a_cluster_outlives_moves() {
        let there = ClusterFixture::running(sound()).facts();
        let noted = |annotations: &[(&str, &str)], facts: &Facts| {
            let mut tkc = here(annotations);
            tkc.finalizers_mut().push(finalizer::TKC.to_owned());
            let record = record(&tkc, facts).unwrap();
            record.map(|record| record.annotations[annotation::CLUSTER_ID].clone())
        };
        let (made_as, id) = (annotation::MADE_AS, annotation::CLUSTER_ID);
        let some = |uid: &str| Some(uid.to_owned());
        assert_eq!(noted(&[], &nothing()), some("here"), "a new one");
        assert_eq!(noted(&[], &there), some("here"), "its annotations were removed");
        assert_eq!(noted(&[(made_as, "here")], &there), some("here"), "its id was removed");
        assert_eq!(noted(&[(made_as, "first"), (id, "first")], &there), some("first"), "it was moved");
        assert_eq!(noted(&[(made_as, "second"), (id, "first")], &there), some("first"), "once more");
        assert_eq!(noted(&[(made_as, "here"), (id, "first")], &there), None, "all is noted");
        assert_eq!(noted(&[(id, "first")], &there), some("first"), "made-as was removed");
    }

    #[test]
    fn only_a_new_cluster_gets_another_id_than_its_manifest_has() {
        let copy = here(&[(annotation::CLUSTER_ID, "elsewhere")]);
        let id = |facts: &Facts| {
            record(&copy, facts).unwrap().unwrap().annotations[annotation::CLUSTER_ID].clone()
        };
        let there = ClusterFixture::running(sound()).facts();
        assert_eq!(id(&nothing()), "here");
        assert_eq!(id(&there), "elsewhere");
        assert_eq!(id(&Facts { cluster: None, ..there }), "elsewhere", "its Cluster was deleted");
    }

    #[test]
    fn the_first_issuer_is_noted_once() {
        let mut tkc = here(&[(annotation::MADE_AS, "here"), (annotation::CLUSTER_ID, "here")]);
        tkc.finalizers_mut().push(finalizer::TKC.to_owned());
        let there = ClusterFixture::running(sound()).facts();
        assert_eq!(record(&tkc, &there).unwrap(), None);
        let jwt = Some(vec![issuer("corp:")]);
        tkc.spec.settings.get_or_insert_default().authentication = Some(AuthenticationSettings { jwt });
        let written = record(&tkc, &there).unwrap().unwrap();
        assert_eq!(written.patch()["metadata"]["annotations"][annotation::API_SERVER], "issuers");
        assert_eq!(record(&written.added_to(&tkc), &there).unwrap(), None);
    }
}
