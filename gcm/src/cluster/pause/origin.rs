//! Detects whether a TanzuKubernetesCluster is the one that its cluster was created from.
//!
//! `clusterctl move` copies the TanzuKubernetesCluster before the Cluster and the other objects. In the meantime, a second
//! cluster with the same name and other keys must not be created. An annotation therefore records the uid of the
//! TanzuKubernetesCluster before anything is created from it. A copy has another uid.
//!
//! The same write records the cluster id and the features that only new clusters get. A copy inherits both from the original.

use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, finalizer};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::error::Error;
use crate::cluster::facts::Facts;
use crate::cluster::node_groups::api_server::ApiServerFeatures;
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

fn origin(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Origin {
    match tkc.annotations().get(annotation::MADE_AS) {
        Some(uid) if Some(uid) == tkc.metadata.uid.as_ref() => Origin::Here,
        Some(_) if facts.cluster.is_none() => Origin::Arriving,
        _ => Origin::Unnoted,
    }
}

/// Returns the cluster id: the uid of the TanzuKubernetesCluster from which the cluster was first created. If an earlier gcm
/// version moved the cluster, returns the uid after the last such move.
pub fn cluster_id(tkc: &TanzuKubernetesCluster) -> Option<&String> {
    let annotations = tkc.annotations();
    let noted = annotations.get(annotation::CLUSTER_ID).or_else(|| annotations.get(annotation::MADE_AS));
    noted.or(tkc.metadata.uid.as_ref())
}

/// Returns true if the cluster's objects were never created, here or elsewhere.
fn is_new(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let Facts { cluster, control_plane, .. } = facts;
    !tkc.annotations().contains_key(annotation::MADE_AS) && cluster.is_none() && control_plane.is_none()
}

/// Returns the patch to write before objects are created, if one is needed: the finalizer, and the annotations for origin, id
/// and features.
///
/// # Errors
/// Returns [`Error::Arriving`] if this is a copy whose Cluster hasn't arrived yet.
pub fn note(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Result<Option<Value>, Error> {
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
    let mut annotations = json!({
        annotation::MADE_AS: tkc.metadata.uid,
        annotation::CLUSTER_ID: cluster_id(tkc),
    });
    if let Some(issuers) = issuers {
        annotations[annotation::API_SERVER] = issuers.into();
    }
    if is_new(tkc, facts) {
        // Any existing values were copied from another cluster, so replace them.
        annotations[annotation::CLUSTER_ID] = tkc.metadata.uid.clone().into();
        annotations[annotation::API_SERVER] = ApiServerFeatures::OF_NEW_CLUSTER.into();
    }
    Ok(Some(json!({ "metadata": { "finalizers": finalizers, "annotations": annotations } })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fixtures::{ClusterFixture, nothing};
    use crate::testing::sound;

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
        assert_eq!(origin(&with(None), &there), Origin::Unnoted, "one of an earlier version");
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
            let note = note(&tkc, facts).unwrap();
            note.map(|note| {
                note["metadata"]["annotations"][annotation::CLUSTER_ID].as_str().unwrap().to_owned()
            })
        };
        let (made_as, id) = (annotation::MADE_AS, annotation::CLUSTER_ID);
        let some = |uid: &str| Some(uid.to_owned());
        assert_eq!(noted(&[], &nothing()), some("here"), "a new one");
        assert_eq!(noted(&[], &there), some("here"), "one of an earlier version");
        assert_eq!(noted(&[(made_as, "here")], &there), some("here"));
        assert_eq!(noted(&[(made_as, "first")], &there), some("first"), "it has just been moved");
        assert_eq!(noted(&[(made_as, "second"), (id, "first")], &there), some("first"), "once more");
        assert_eq!(noted(&[(made_as, "here"), (id, "first")], &there), None, "all is noted");
        assert_eq!(noted(&[(id, "first")], &there), some("first"), "made-as was removed");
    }

    #[test]
    fn only_a_new_cluster_is_noted_to_have_what_is_new() {
        let noted = |made_as: Option<&str>, facts: &Facts| {
            let tkc = here(made_as.map(|uid| (annotation::MADE_AS, uid)).as_slice());
            let note = note(&tkc, facts).unwrap().unwrap();
            note["metadata"]["annotations"].get(annotation::API_SERVER).cloned()
        };
        let (none, there) = (nothing(), ClusterFixture::running(sound()).facts());
        assert_eq!(noted(None, &none), Some(json!("audit,encryption,authentication")));
        assert_eq!(noted(None, &there), None, "one of an earlier version");
        assert_eq!(noted(Some("here"), &none), None, "an earlier version was about to create it");
        assert_eq!(noted(Some("elsewhere"), &there), None, "a copy of one of an earlier version");
        let copy = here(&[(annotation::API_SERVER, "audit"), (annotation::CLUSTER_ID, "elsewhere")]);
        let annotations = &note(&copy, &none).unwrap().unwrap()["metadata"]["annotations"];
        assert_eq!(annotations[annotation::CLUSTER_ID], "here", "it is a cluster of its own");
        assert_eq!(annotations[annotation::API_SERVER], "audit,encryption,authentication");
        let without_cluster = Facts { cluster: None, ..there };
        assert_eq!(noted(None, &without_cluster), None, "its Cluster was deleted");
    }
}
