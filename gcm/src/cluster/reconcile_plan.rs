//! Plans one reconcile: the record of the cluster's origin, then the cluster's objects.

use std::borrow::Cow;
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use kit::Next;
use kube::ResourceExt;

use super::encryption::gather::CHECK_INTERVAL;
use super::error::Error;
use super::gather::{ClusterSecrets, FactsWithSecrets};
use super::health::budget;
use super::pause::origin::{self, OriginRecord};
use super::plan::{self, Plan};

/// The writes that a reconcile intends.
#[derive(Debug)]
pub struct ReconcilePlan {
    /// The record of the cluster's origin, if it isn't written yet. It is written first.
    pub origin: Option<OriginRecord>,
    /// The objects, or the reason why they can't be planned. The origin is written nevertheless.
    pub objects: Result<PlannedObjects, Error>,
}

/// The planned objects, and the reconcile's result if they are applied without an error.
#[derive(Debug)]
pub struct PlannedObjects {
    pub plan: Plan,
    /// The time of the next reconcile if nothing changes before: when a remediation budget is available again, or when the
    /// encryption Secret must be read again.
    pub next: Next,
    /// The reason why a running cluster's encryption Secret can't be used. The objects are applied nevertheless.
    pub unusable_secret: Option<String>,
}

/// Plans one reconcile.
///
/// # Errors
/// Returns [`Error::Arriving`] if this is a copy whose Cluster hasn't arrived yet.
pub fn plan(tkc: &TanzuKubernetesCluster, read: &FactsWithSecrets) -> Result<ReconcilePlan, Error> {
    let origin = origin::record(tkc, &read.facts)?;
    let recorded = origin.as_ref().map_or(Cow::Borrowed(tkc), |origin| Cow::Owned(origin.added_to(tkc)));
    let objects = plan_objects(&recorded, read);
    Ok(ReconcilePlan { origin, objects })
}

fn plan_objects(tkc: &TanzuKubernetesCluster, read: &FactsWithSecrets) -> Result<PlannedObjects, Error> {
    let FactsWithSecrets { facts, secrets } = read;
    // `gather` doesn't read the Secrets either while the Cluster is being deleted.
    let Some(secrets) = secrets.as_ref().filter(|_| !facts.is_cluster_deleted()) else {
        return Err(Error::Waiting(describe_recreation(tkc)));
    };
    let ClusterSecrets { login, encryption } = secrets.as_ref().map_err(Clone::clone)?;
    let plan = plan::plan(tkc, facts, login, encryption)?;
    let resumes = budget::list_spent_pools(tkc, facts).into_iter().map(|(_, until)| until).min();
    let resumes = resumes.and_then(|until| Duration::try_from(until.duration_since(facts.now)).ok());
    let next = resumes.map_or(CHECK_INTERVAL, |resumes| resumes.min(CHECK_INTERVAL));
    Ok(PlannedObjects { plan, next: Next::After(next), unusable_secret: encryption.unusable.clone() })
}

/// Returns the message for a cluster whose Cluster was deleted directly.
pub fn describe_recreation(tkc: &TanzuKubernetesCluster) -> String {
    let name = tkc.name_any();
    format!(
        "Cluster {name} was deleted directly. It will be recreated when its deletion is complete. To remove it for good, delete TanzuKubernetesCluster {name}"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::names::annotation;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::cluster::encryption::gather::Encryption;
    use crate::cluster::facts::Facts;
    use crate::cluster::fixtures::{ClusterFixture, login, nothing, stored};
    use crate::testing::sound;

    fn with_secrets(facts: Facts) -> FactsWithSecrets {
        let secrets = ClusterSecrets { login: login(), encryption: Encryption::default() };
        FactsWithSecrets { facts, secrets: Some(Ok(secrets)) }
    }

    #[test]
    fn the_origin_is_recorded_even_if_the_objects_cannot_be_planned() {
        let mut invalid = stored(sound());
        invalid.spec.topology.control_plane.replicas = Some(2);
        let planned = plan(&invalid, &with_secrets(nothing())).unwrap();
        assert!(planned.origin.is_some());
        assert!(matches!(planned.objects, Err(Error::Invalid(_))), "{:?}", planned.objects);

        let secrets = Some(Err(Error::Secret("ns/c-ssh has no key".to_owned())));
        let planned = plan(&stored(sound()), &FactsWithSecrets { facts: nothing(), secrets }).unwrap();
        assert!(planned.origin.is_some());
        assert!(matches!(planned.objects, Err(Error::Secret(_))), "{:?}", planned.objects);
    }

    #[test]
    fn nothing_is_planned_while_the_cluster_arrives_or_is_deleted_directly() {
        let mut copy = stored(sound());
        copy.annotations_mut().insert(annotation::MADE_AS.to_owned(), "elsewhere".to_owned());
        let arriving = FactsWithSecrets { facts: nothing(), secrets: None };
        assert!(matches!(plan(&copy, &arriving), Err(Error::Arriving(_))));

        let fixture = ClusterFixture::running(sound());
        let mut facts = fixture.facts();
        Arc::make_mut(facts.cluster.as_mut().unwrap()).metadata.deletion_timestamp =
            Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let planned = plan(&fixture.tkc, &with_secrets(facts)).unwrap();
        assert!(matches!(planned.objects, Err(Error::Waiting(_))), "{:?}", planned.objects);
    }

    #[test]
    fn objects_are_planned_from_the_cluster_with_its_origin() {
        let fixture = ClusterFixture::running(sound());
        let mut tkc = fixture.tkc.clone();
        tkc.metadata.annotations = None;
        let planned = plan(&tkc, &with_secrets(fixture.facts())).unwrap();
        assert!(planned.origin.is_some());
        let values = planned.objects.unwrap().plan.addons.unwrap().values;
        assert_eq!(Some(values.cluster_id), tkc.metadata.uid);
    }
}
