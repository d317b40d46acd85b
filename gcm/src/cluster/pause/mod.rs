//! Detects paused clusters and computes their status.

pub mod origin;

use api::conditions::{Condition, INFO, READY, TRUE, contract, find, holds, tkc as words};
use api::gcm::parts::phase;
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};
use api::names::{self, annotation};
use kube::ResourceExt;

use super::facts::Facts;

/// Describes what paused the cluster and how to resume it. Returns `None` if the cluster isn't paused.
pub fn describe(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<String> {
    let (name, namespace) = (tkc.name_any(), tkc.namespace().unwrap_or_default());
    let (by, resume) = if tkc.annotations().contains_key(annotation::PAUSED) {
        let by = format!("TanzuKubernetesCluster {name} has the annotation {}", annotation::PAUSED);
        (by, format!("kubectl annotate tkc {name} -n {namespace} {}-", annotation::PAUSED))
    } else if facts.cluster.as_ref().is_some_and(|cluster| cluster.spec.paused == Some(true)) {
        let change = r#"{"spec":{"paused":null}}"#;
        let resume = format!(
            "kubectl patch clusters.cluster.x-k8s.io {name} -n {namespace} --type merge -p '{change}'"
        );
        (format!("{}has spec.paused: true", by_cluster(&name)), resume)
    } else if let Some(part) = find_removed_object(tkc, facts) {
        return Some(format!(
            "{}had spec.paused: true when {part} was removed, as `clusterctl move` does, so it is not created again. If a move was interrupted, the cluster continues in the other management cluster: remove the remaining objects here as the move does, with annotation {}. If the cluster was not moved and you want a new one, remove the annotation {}",
            by_cluster(&name),
            annotation::DELETE_FOR_MOVE,
            annotation::MADE_AS,
        ));
    } else {
        return None;
    };
    let waits = match tkc.metadata.deletion_timestamp {
        Some(_) => "the deletion is paused",
        None => "nothing is changed or repaired",
    };
    Some(format!("{by}: {waits}. To resume: {resume}"))
}

/// Returns the prefix of messages about a paused Cluster. [`find_removed_object`] recognizes such messages by this prefix.
fn by_cluster(name: &str) -> String {
    format!("Cluster {name} ")
}

/// Returns the object that was removed while the Cluster was paused, if any. Only `clusterctl move` does this: it removes
/// the control plane here, then the Cluster, then the TanzuKubernetesCluster. Objects created in between, or after an
/// interrupted move, would form a second cluster.
fn find_removed_object(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<String> {
    let part = match &facts.cluster {
        None => "it".to_owned(),
        Some(_) if facts.is_initialized() && facts.control_plane.is_none() => {
            format!("KubeadmControlPlane {}", names::control_plane(&tkc.name_any()))
        }
        Some(_) => return None,
    };
    let conditions = tkc.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let noted = find(conditions, words::PAUSED).and_then(|paused| paused.message.as_deref());
    let was_paused = tkc.annotations().contains_key(annotation::MADE_AS)
        && noted.is_some_and(|message| message.starts_with(&by_cluster(&tkc.name_any())));
    // If nothing but the deleted TanzuKubernetesCluster remains, its deletion can't remove anything by mistake.
    let removes_nothing = facts.cluster.is_none() && tkc.metadata.deletion_timestamp.is_some();
    (was_paused && !removes_nothing).then_some(part)
}

/// Returns the status of a paused cluster: the previous status with the condition Paused. If work is pending, Ready reports the
/// pause too.
pub fn build_paused_status(tkc: &TanzuKubernetesCluster, message: String) -> TanzuKubernetesClusterStatus {
    let mut status = tkc.status.clone().unwrap_or_default();
    if is_awaited(tkc, &status) {
        let ready = Condition::is_false(READY, INFO, contract::PAUSED, message.clone());
        match status.conditions.iter_mut().find(|condition| condition.type_ == READY) {
            Some(known) => *known = ready,
            None => status.conditions.insert(0, ready),
        }
    }
    if tkc.metadata.deletion_timestamp.is_some() {
        status.phase = Some(phase::DELETING.to_owned());
    }
    status.conditions.retain(|condition| condition.type_ != words::PAUSED);
    status.conditions.push(Condition {
        type_: words::PAUSED.into(),
        status: TRUE.into(),
        reason: Some(contract::PAUSED.to_owned()),
        message: Some(message),
        ..Condition::default()
    });
    status
}

/// Returns true if work is pending: a deletion, a spec change, or repairs of a cluster that isn't ready.
fn is_awaited(tkc: &TanzuKubernetesCluster, status: &TanzuKubernetesClusterStatus) -> bool {
    tkc.metadata.deletion_timestamp.is_some()
        || tkc.metadata.generation != status.observed_generation
        || !holds(&status.conditions, READY)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::conditions::find;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::cluster::fixtures::ClusterFixture;
    use crate::cluster::status::compute_status as computed;
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
            r#"Cluster c has spec.paused: true: nothing is changed or repaired. To resume: kubectl patch clusters.cluster.x-k8s.io c -n ns --type merge -p '{"spec":{"paused":null}}'"#
        );

        fixture.tkc.status = Some(computed(&fixture.tkc, &facts, None).status);
        let idle = build_paused_status(&fixture.tkc, "paused".to_owned());
        assert_eq!(find(&idle.conditions, "Ready").unwrap().status, TRUE, "nothing waits for the end");
        let mut scaled = fixture.tkc.clone();
        scaled.metadata.generation = Some(99);
        let held = build_paused_status(&scaled, "paused".to_owned());
        let ready = find(&held.conditions, "Ready").unwrap();
        assert_eq!((ready.reason.as_deref(), ready.message.as_deref()), (Some("Paused"), Some("paused")));
        fixture.tkc.annotations_mut().insert(annotation::PAUSED.to_owned(), String::new());
        fixture.tkc.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let message = describe(&fixture.tkc, &facts).unwrap();
        assert!(message.contains("annotation cluster.x-k8s.io/paused: the deletion is paused"), "{message}");
        assert!(message.ends_with("kubectl annotate tkc c -n ns cluster.x-k8s.io/paused-"), "{message}");
        let paused = build_paused_status(&fixture.tkc, message);
        assert_eq!(find(&paused.conditions, "Paused").unwrap().status, TRUE);
        assert_eq!(find(&paused.conditions, "Ready").unwrap().reason.as_deref(), Some("Paused"));
        assert_eq!(paused.phase.as_deref(), Some("deleting"));
        assert_eq!(find(&paused.conditions, "NodesHealthy").unwrap().status, TRUE, "the rest is as it was");
        fixture.tkc.status = Some(paused);
        let resumed = computed(&fixture.tkc, &facts, None).status;
        assert_eq!(find(&resumed.conditions, "Paused"), None);
    }

    #[test]
    fn no_cluster_is_made_in_the_place_of_one_that_was_moved_away() {
        let mut fixture = ClusterFixture::running(sound());
        fixture.tkc.annotations_mut().insert(annotation::MADE_AS.to_owned(), "here".to_owned());
        let mut facts = fixture.facts();
        let gone = Facts { cluster: None, ..facts.clone() };
        assert_eq!(describe(&fixture.tkc, &gone), None, "somebody deleted it");

        Arc::make_mut(facts.cluster.as_mut().unwrap()).spec.paused = Some(true);
        let mut tkc = fixture.tkc.clone();
        for facts in [&facts, &gone, &gone] {
            let message = describe(&tkc, facts).unwrap();
            tkc.status = Some(build_paused_status(&tkc, message));
        }
        let message = describe(&tkc, &gone).unwrap();
        assert!(message.ends_with("remove the annotation run.tanzu.vmware.com/made-as"), "{message}");

        let mut wanted = tkc.clone();
        wanted.annotations_mut().remove(annotation::MADE_AS);
        assert_eq!(describe(&wanted, &gone), None);
        tkc.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(describe(&tkc, &gone), None, "nothing of it is here any more");
    }

    #[test]
    fn no_control_plane_is_made_where_a_move_was_broken_off() {
        let mut fixture = ClusterFixture::running(sound());
        fixture.tkc.annotations_mut().insert(annotation::MADE_AS.to_owned(), "here".to_owned());
        let here = fixture.facts();
        let mut paused = here.clone();
        Arc::make_mut(paused.cluster.as_mut().unwrap()).spec.paused = Some(true);
        let mut tkc = fixture.tkc.clone();
        tkc.status = Some(build_paused_status(&tkc, describe(&tkc, &paused).unwrap()));
        assert_eq!(describe(&tkc, &here), None, "all is here: the move had only begun");

        let without = |facts: &Facts| Facts { control_plane: None, ..facts.clone() };
        assert_eq!(describe(&fixture.tkc, &without(&here)), None, "somebody deleted it");
        let message = describe(&tkc, &without(&here)).unwrap();
        assert!(message.contains("when KubeadmControlPlane c-control-plane was removed"), "{message}");
        assert!(message.contains("in the other management cluster"), "{message}");
        tkc.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(
            describe(&tkc, &without(&here)).is_some(),
            "its machines may be here, and belong to the copy"
        );
        tkc.annotations_mut().remove(annotation::MADE_AS);
        assert_eq!(describe(&tkc, &without(&here)), None);
    }
}
