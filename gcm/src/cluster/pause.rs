//! A cluster on which nobody is to work.

use api::conditions::{Condition, TRUE, tkc as words};
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};
use api::names::annotation;
use kube::ResourceExt;

use super::gather::Facts;

/// Who put the work off and how it goes on, or nothing if nobody did.
pub fn describe(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<String> {
    let name = tkc.name_any();
    let by = if tkc.annotations().contains_key(annotation::PAUSED) {
        format!("TanzuKubernetesCluster {name} has the annotation {}", annotation::PAUSED)
    } else if facts.cluster.as_ref()?.spec.paused == Some(true) {
        format!("Cluster {name} has spec.paused: true")
    } else {
        return None;
    };
    let remedy = "remove it to have the work go on";
    Some(match tkc.metadata.deletion_timestamp {
        Some(_) => format!("{by}: the deletion waits; {remedy}"),
        None => format!("{by}: nothing is changed or repaired; {remedy}"),
    })
}

/// The status of a cluster that is paused: as it was, and that it is so.
pub fn status(tkc: &TanzuKubernetesCluster, message: String) -> TanzuKubernetesClusterStatus {
    let mut status = tkc.status.clone().unwrap_or_default();
    status.conditions.retain(|condition| condition.type_ != words::PAUSED);
    status.conditions.push(Condition {
        type_: words::PAUSED.into(),
        status: TRUE.into(),
        reason: Some(words::PAUSED.to_owned()),
        message: Some(message),
        ..Condition::default()
    });
    status
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::conditions::find;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::cluster::fixtures::ClusterFixture;
    use crate::cluster::status::status as computed;
    use crate::testing::sound;

    #[test]
    fn a_paused_cluster_says_who_paused_it_and_what_waits() {
        let mut fixture = ClusterFixture::running(sound());
        let facts = fixture.facts();
        assert_eq!(describe(&fixture.tkc, &facts), None);
        let mut by_cluster = facts.clone();
        Arc::make_mut(by_cluster.cluster.as_mut().unwrap()).spec.paused = Some(true);
        let message = describe(&fixture.tkc, &by_cluster).unwrap();
        assert_eq!(
            message,
            "Cluster c has spec.paused: true: nothing is changed or repaired; remove it to have the work go on"
        );

        fixture.tkc.status = Some(computed(&fixture.tkc, &facts, None).status);
        fixture.tkc.annotations_mut().insert(annotation::PAUSED.to_owned(), String::new());
        fixture.tkc.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let message = describe(&fixture.tkc, &facts).unwrap();
        assert!(message.contains("annotation cluster.x-k8s.io/paused: the deletion waits"), "{message}");
        let paused = status(&fixture.tkc, message);
        assert_eq!(find(&paused.conditions, "Paused").unwrap().status, TRUE);
        assert_eq!(find(&paused.conditions, "Ready").unwrap().status, TRUE, "the rest is as it was");
        fixture.tkc.status = Some(paused);
        let resumed = computed(&fixture.tkc, &facts, None).status;
        assert_eq!(find(&resumed.conditions, "Paused"), None);
    }
}
