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
pub mod spec;
pub mod status;
pub mod upgrade;
pub mod volumes;

use std::sync::Arc;
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use jiff::Timestamp;
use kit::index::key;
use kit::status::settle;
use kit::{Next, ReconcileError};
use kube::{Resource, ResourceExt};

use applied::Applied;
use context::Context;
use encryption::gather::CHECK_INTERVAL;
use error::Error;
use facts::Facts;
use health::budget;
use pause::origin;
use plan::Plan;
use status::{StatusWithCause, milestones};

/// Reconciles one TanzuKubernetesCluster.
pub async fn reconcile(tkc: Arc<TanzuKubernetesCluster>, ctx: Arc<Context>) -> Result<Next, Error> {
    let facts = gather::facts(&tkc, &ctx)?; // reads only caches
    if kit::is_moving(&*tkc) {
        ctx.guests.forget(&key(tkc.namespace().as_deref(), &tkc.name_any()));
        return Ok(Next::OnChange);
    }
    if let Some(pause) = pause::describe(&tkc, &facts) {
        ctx.guests.forget(&key(tkc.namespace().as_deref(), &tkc.name_any()));
        write_status(&tkc, StatusWithCause { status: pause::status(&tkc, pause), cause: None }, &ctx).await?;
        return Ok(Next::OnChange);
    }
    let (applied, outcome) = if tkc.meta().deletion_timestamp.is_some() {
        ctx.guests.forget(&key(tkc.namespace().as_deref(), &tkc.name_any()));
        (Applied::default(), delete::carry_out(&tkc, &facts, &ctx).await)
    } else {
        make(&tkc, &facts, &ctx).await
    };
    if outcome.as_ref().is_err_and(ReconcileError::is_overtaken) {
        return outcome;
    }
    let report = status::status(&tkc, &applied.over(facts), outcome.as_ref().err()); // pure
    write_status(&tkc, report, &ctx).await?; // one patch, skipped if the status is unchanged
    outcome
}

/// Creates or updates the cluster. Returns the applied objects, even after an error.
async fn make(
    tkc: &Arc<TanzuKubernetesCluster>,
    facts: &Facts,
    ctx: &Context,
) -> (Applied, Result<Next, Error>) {
    let Prepared { plan, next, unusable_secret } = match prepare(tkc, facts, ctx).await {
        Ok(prepared) => prepared,
        Err(error) => return (Applied::default(), Err(error)),
    };
    let (applied, outcome) = carry_out::carry_out(plan, facts, ctx).await; // all writes to the cluster's objects
    let usable = unusable_secret.map_or(Ok(next), |why| Err(Error::Secret(why)));
    (applied, outcome.and(usable))
}

/// The plan for one reconcile, and the reconcile's result if the plan is carried out without an error.
struct Prepared {
    plan: Plan,
    /// The time of the next reconcile if nothing changes before: when a remediation budget is available again, or when the
    /// encryption Secret must be read again.
    next: Next,
    /// The reason why a running cluster's encryption Secret can't be used. The plan is carried out nevertheless.
    unusable_secret: Option<String>,
}

/// Records that the cluster is created here, reads the cluster's Secrets, and plans its objects.
async fn prepare(tkc: &Arc<TanzuKubernetesCluster>, facts: &Facts, ctx: &Context) -> Result<Prepared, Error> {
    let note = origin::note(tkc, facts)?;
    let tkc = &*carry_out::note_origin(tkc, note, ctx).await?;
    if is_cluster_deleted(facts) {
        return Err(Error::Waiting(describe_recreation(tkc)));
    }
    let login = login::gather::gather(tkc, &ctx.api).await?;
    let encryption = encryption::gather::gather(tkc, facts, &ctx.api).await?;
    let plan = plan::plan(tkc, facts, &login, &encryption)?; // pure; an invalid plan isn't retried until the user acts
    let resumes = budget::spent(tkc, facts).into_iter().map(|(_, until)| until).min();
    let resumes = resumes.and_then(|until| Duration::try_from(until.duration_since(facts.now)).ok());
    let next = resumes.map_or(CHECK_INTERVAL, |resumes| resumes.min(CHECK_INTERVAL));
    Ok(Prepared { plan, next: Next::After(next), unusable_secret: encryption.unusable })
}

/// Returns true if a client deleted the Cluster directly. gcm doesn't recreate the Cluster until Cluster API has finished the
/// deletion.
fn is_cluster_deleted(facts: &Facts) -> bool {
    facts.cluster.as_ref().is_some_and(|cluster| cluster.meta().deletion_timestamp.is_some())
}

fn describe_recreation(tkc: &TanzuKubernetesCluster) -> String {
    let name = tkc.name_any();
    format!(
        "Cluster {name} was deleted directly. It will be recreated when its deletion is complete. To remove it for good, delete TanzuKubernetesCluster {name}"
    )
}

async fn write_status(
    tkc: &TanzuKubernetesCluster,
    report: StatusWithCause,
    ctx: &Context,
) -> Result<(), Error> {
    let StatusWithCause { status: mut new, cause } = report;
    let old = tkc.status.clone().unwrap_or_default();
    new.conditions = settle(&old.conditions, new.conditions, Timestamp::now());
    for addon in &mut new.addons {
        let before = old.addons.iter().find(|before| before.name == addon.name);
        let before = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        addon.conditions = settle(before, std::mem::take(&mut addon.conditions), Timestamp::now());
    }
    match ctx.api.patch_status(tkc, &new).await {
        Ok(true) => {
            for milestone in milestones::between(&old, &new, cause.as_ref()) {
                milestone.publish(&ctx.events, tkc);
            }
        }
        Ok(false) => {}
        // Removing the finalizer has deleted the object.
        Err(error) if kit::apply::is_gone(&error) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
