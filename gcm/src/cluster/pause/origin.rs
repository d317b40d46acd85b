//! Whether a TanzuKubernetesCluster is where its cluster was made.
//!
//! `clusterctl move` copies it before its Cluster and all else. A second cluster of its name, with other keys, must not be made
//! meanwhile. So it bears its own uid since before anything was made of it; a copy has another.

use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, finalizer};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::error::Error;
use crate::cluster::facts::Facts;

/// Where a TanzuKubernetesCluster comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Here, and it says so.
    Here,
    /// Here, or from elsewhere with its Cluster: that is to be noted.
    Unnoted,
    /// From elsewhere, and its Cluster is not here.
    Arriving,
}

fn origin(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Origin {
    match tkc.annotations().get(annotation::MADE_AS) {
        Some(uid) if Some(uid) == tkc.metadata.uid.as_ref() => Origin::Here,
        Some(_) if facts.cluster.is_none() => Origin::Arriving,
        _ => Origin::Unnoted,
    }
}

/// What is to be written before anything is made, if anything: the finalizer, and that the cluster is made here.
///
/// # Errors
/// [`Error::Arriving`] where its Cluster is still to come.
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
    if marked && origin == Origin::Here {
        return Ok(None);
    }
    if !marked {
        finalizers.push(finalizer::TKC.to_owned());
    }
    let annotations = json!({ annotation::MADE_AS: tkc.metadata.uid });
    Ok(Some(json!({ "metadata": { "finalizers": finalizers, "annotations": annotations } })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fixtures::{ClusterFixture, nothing, stored};
    use crate::testing::sound;

    #[test]
    fn a_copy_waits_for_its_cluster_and_stays_where_that_has_come() {
        let with = |made_as: Option<&str>| {
            let mut tkc = stored(sound());
            tkc.metadata.uid = Some("here".to_owned());
            let noted = made_as.map(|uid| (annotation::MADE_AS.to_owned(), uid.to_owned()));
            tkc.annotations_mut().extend(noted);
            tkc
        };
        let (none, there) = (nothing(), ClusterFixture::running(sound()).facts());
        assert_eq!(origin(&with(None), &none), Origin::Unnoted, "a new one");
        assert_eq!(origin(&with(None), &there), Origin::Unnoted, "one of an earlier version");
        assert_eq!(origin(&with(Some("here")), &none), Origin::Here, "somebody deleted its Cluster");
        assert_eq!(origin(&with(Some("here")), &there), Origin::Here);
        assert_eq!(origin(&with(Some("elsewhere")), &none), Origin::Arriving);
        assert_eq!(origin(&with(Some("elsewhere")), &there), Origin::Unnoted, "it has arrived");
    }
}
