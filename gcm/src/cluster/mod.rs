//! Reconciles TanzuKubernetesClusters: plans a cluster's Cluster API objects, applies them, and reports their state in the
//! status.

pub mod applied;
pub mod carry_out;
pub mod cluster_secret;
pub mod context;
pub mod delete;
pub mod encryption;
pub mod error;
pub mod facts;
pub mod flags;
pub mod gather;
pub mod guest;
pub mod health;
pub mod input;
pub mod invalid;
pub mod login;
pub mod network;
pub mod node_file;
pub mod node_groups;
mod pause;
pub mod plan;
pub mod reconcile_plan;
pub mod spec;
pub mod status;
pub mod upgrade;
pub mod volumes;

use std::sync::Arc;

use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};
use kit::apply::Api;
use kit::index::key;
use kit::reconcile::{DeletionProgress, ReconcileOutcome, Seen};
use kit::{Next, Reconcile};
use kube::ResourceExt;

use applied::Applied;
use carry_out::Done;
use context::Context;
use error::Error;
use gather::FactsWithSecrets;
use reconcile_plan::ReconcilePlan;
use status::{StatusWithCause, milestones};

/// Reconciles a TanzuKubernetesCluster: the origin that its annotations record, its Cluster API objects and its add-ons.
impl Reconcile for Context {
    type Kind = TanzuKubernetesCluster;
    type Facts = FactsWithSecrets;
    type Plan = ReconcilePlan;
    type Done = Done;
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(_tkc: &TanzuKubernetesCluster, error: kube::Error) -> Error {
        error.into()
    }

    /// Stops the work in the workload cluster.
    fn suspend(&self, tkc: &TanzuKubernetesCluster) {
        self.guests.forget(&key(tkc.namespace().as_deref(), &tkc.name_any()));
    }

    async fn gather(&self, tkc: &Arc<TanzuKubernetesCluster>) -> Result<FactsWithSecrets, Error> {
        Ok(gather::gather(tkc, self).await?)
    }

    fn is_paused(tkc: &TanzuKubernetesCluster, read: &FactsWithSecrets) -> bool {
        pause::describe(tkc, &read.facts).is_some()
    }

    fn plan(tkc: &TanzuKubernetesCluster, read: &FactsWithSecrets) -> Result<ReconcilePlan, Error> {
        reconcile_plan::plan(tkc, read)
    }

    async fn carry_out(
        &self,
        tkc: &mut Arc<TanzuKubernetesCluster>,
        plan: ReconcilePlan,
        read: &FactsWithSecrets,
    ) -> Result<Done, Error> {
        carry_out::carry_out(tkc, plan, &read.facts, self).await
    }

    /// Reports even the last step, because other programs' finalizers can keep the object.
    async fn delete(
        &self,
        tkc: &Arc<TanzuKubernetesCluster>,
        read: &FactsWithSecrets,
    ) -> Result<DeletionProgress<Done>, Error> {
        delete::carry_out(tkc, &read.facts, self).await?;
        Ok(DeletionProgress::Remains(Done { applied: Applied::default(), result: Ok(Next::OnChange) }))
    }

    fn status(seen: &Seen<'_, Self>) -> Option<TanzuKubernetesClusterStatus> {
        Some(compute_status(seen)?.status)
    }

    fn publish(&self, seen: &Seen<'_, Self>, new: Option<&TanzuKubernetesClusterStatus>) {
        let Some(new) = new else { return };
        let old = seen.object.status.clone().unwrap_or_default();
        // The status has no field for the cause, so compute the cause again.
        let cause = compute_status(seen).and_then(|report| report.cause);
        for milestone in milestones::list_milestones(&old, new, cause.as_ref()) {
            milestone.publish(&self.events, seen.object);
        }
    }

    fn conclude(done: Done) -> Result<Next, Error> {
        done.result
    }
}

fn compute_status(seen: &Seen<'_, Context>) -> Option<StatusWithCause> {
    let (tkc, facts) = (seen.object, &seen.facts?.facts);
    let (applied, error) = match seen.outcome {
        ReconcileOutcome::Paused => {
            let status = pause::build_paused_status(tkc, pause::describe(tkc, facts)?);
            return Some(StatusWithCause { status, cause: None });
        }
        ReconcileOutcome::Done(Done { applied, result }) => (applied.clone(), result.as_ref().err()),
        ReconcileOutcome::Failed(error) => (Applied::default(), Some(error)),
    };
    Some(status::compute_status(tkc, &applied.over(facts.clone()), error))
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
