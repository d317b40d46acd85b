//! TanzuKubernetesCluster: from what a user asks for to Cluster API objects, and their state back up.

pub mod act;
pub mod blocking;
pub mod conditions;
pub mod delete;
pub mod gather;
pub mod milestones;
pub mod nodes;
pub mod objects;
pub mod plan;
pub mod present;
pub mod status;

use std::sync::Arc;

use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};
use api::names::{annotation, finalizer};
use jiff::Timestamp;
use kit::expectations::StaleCache;
use kit::status::settle;
use kit::{Disposition, Next, ReconcileError};
use kube::{Resource, ResourceExt};

use gather::{Context, Facts};

/// Why a cluster is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its author has to change it, or a release has to appear.
    #[error(transparent)]
    Invalid(#[from] plan::Invalid),
    /// Something has to end first.
    #[error("waiting for {0}")]
    Waiting(String),
    /// Our own last write is not in the cache yet.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// An object of that name belongs to somebody else.
    #[error("{0} exists and does not belong to this cluster. Delete or rename it")]
    Taken(String),
    /// The API server refused or did not answer.
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Invalid(_) => Disposition::Invalid,
            Self::Waiting(_) => Disposition::Waiting(None),
            Self::Behind(_) => Disposition::Waiting(Some(kit::retry::REQUEUE_SOON)),
            Self::Taken(_) => Disposition::Failed,
            Self::Api(error) => Disposition::from_api_error(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) => "Waiting",
            Self::Behind(_) => "Behind",
            Self::Taken(_) => "Taken",
            Self::Api(_) => "Api",
        }
    }
}

/// Brings one cluster from what it is to what its spec says.
pub async fn reconcile(tkc: Arc<TanzuKubernetesCluster>, ctx: Arc<Context>) -> Result<Next, Error> {
    let mut facts = gather::facts(&tkc, &ctx)?; // every read
    if rests(&tkc, &facts) {
        return Ok(Next::OnChange);
    }
    let outcome = if tkc.meta().deletion_timestamp.is_some() {
        delete::carry_out(&tkc, &facts, &ctx).await
    } else {
        let tkc =
            ctx.api.add_finalizer(&*tkc, finalizer::TKC).await?.map_or_else(|| Arc::clone(&tkc), Arc::new);
        match plan::plan(&tkc, &facts) {
            _ if going(&facts) => Err(Error::Waiting(remade(&tkc))),
            Ok(plan) => act::carry_out(plan, &mut facts, &ctx).await, // every write
            Err(invalid) => Err(invalid.into()),                      // the user must act: no retry
        }
    };
    if matches!(outcome, Err(Error::Behind(_))) {
        return outcome;
    }
    let new = status::status(&tkc, &facts, outcome.as_ref().err()); // thinks
    report(&tkc, new, &ctx).await?; // one write, and only if it changed
    outcome
}

/// Whether nobody is to act: paused, or moved to another management cluster.
fn rests(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let annotations = tkc.annotations();
    annotations.contains_key(annotation::PAUSED)
        || annotations.contains_key(annotation::DELETE_FOR_MOVE)
        || facts.cluster.as_ref().is_some_and(|cluster| cluster.spec.paused == Some(true))
}

/// Whether somebody deleted the Cluster: what Cluster API takes down is not put up again meanwhile.
fn going(facts: &Facts) -> bool {
    facts.cluster.as_ref().is_some_and(|cluster| cluster.meta().deletion_timestamp.is_some())
}

fn remade(tkc: &TanzuKubernetesCluster) -> String {
    let name = tkc.name_any();
    format!(
        "Cluster {name} to go, which somebody deleted. Then it is made anew; to be rid of it, delete TanzuKubernetesCluster {name}"
    )
}

async fn report(
    tkc: &TanzuKubernetesCluster,
    mut new: TanzuKubernetesClusterStatus,
    ctx: &Context,
) -> Result<(), Error> {
    let old = tkc.status.clone().unwrap_or_default();
    new.conditions = settle(&old.conditions, new.conditions, Timestamp::now());
    match ctx.api.patch_status(tkc, &new).await {
        Ok(true) => {
            for milestone in milestones::between(&old, &new) {
                milestone.publish(&ctx.events, tkc);
            }
        }
        Ok(false) => {}
        // The finalizer went, and the object with it.
        Err(error) if kit::apply::is_gone(&error) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[cfg(test)]
mod change_tests;
#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
