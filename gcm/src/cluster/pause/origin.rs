//! Detects whether a TanzuKubernetesCluster is the one that its cluster was created from.
//!
//! `clusterctl move` copies the TanzuKubernetesCluster before the Cluster and the other objects. In the meantime, a second
//! cluster with the same name and other keys must not be created. An annotation therefore records the uid of the
//! TanzuKubernetesCluster before anything is created from it. A copy has another uid.
//!
//! The same write records the cluster id, which a copy inherits from the original.

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

/// Returns the patch to write before objects are created, if one is needed: the finalizer, and the annotations for origin, id
/// and issuers.
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
        // An existing id was copied from another cluster, so replace it.
        annotations[annotation::CLUSTER_ID] = tkc.metadata.uid.clone().into();
    }
    Ok(Some(json!({ "metadata": { "finalizers": finalizers, "annotations": annotations } })))
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
            let note = note(&tkc, facts).unwrap();
            note.map(|note| {
                note["metadata"]["annotations"][annotation::CLUSTER_ID].as_str().unwrap().to_owned()
            })
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
            let note = note(&copy, facts).unwrap().unwrap();
            note["metadata"]["annotations"][annotation::CLUSTER_ID].clone()
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
        assert_eq!(note(&tkc, &there).unwrap(), None);
        let jwt = Some(vec![issuer("corp:")]);
        tkc.spec.settings.get_or_insert_default().authentication = Some(AuthenticationSettings { jwt });
        let noted = note(&tkc, &there).unwrap().unwrap();
        assert_eq!(noted["metadata"]["annotations"][annotation::API_SERVER], "issuers");
        tkc.annotations_mut().insert(annotation::API_SERVER.to_owned(), "issuers".to_owned());
        assert_eq!(note(&tkc, &there).unwrap(), None);
    }
}
