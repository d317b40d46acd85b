//! Deletes a cluster: first the Cluster, then the objects that remain without it, and last the finalizer.

use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use api::names::finalizer;
use kit::watch::Watchable;

use super::context::Context;
use super::error::Error;
use super::facts::Facts;
use super::status::remaining::{is_empty, remaining};

/// Carries out the next deletion step, and returns [`Error::Waiting`] while objects remain. Cluster API deletes the workers
/// before the control plane.
pub async fn carry_out(tkc: &TanzuKubernetesCluster, facts: &Facts, ctx: &Context) -> Result<(), Error> {
    if let Some(cluster) = &facts.cluster {
        ctx.api.delete(&**cluster).await?;
        return Err(Error::Waiting(remaining(facts)));
    }
    delete_all(&facts.deployments, ctx).await?;
    delete_all(facts.control_plane.as_slice(), ctx).await?;
    delete_all(facts.wcp_cluster.as_slice(), ctx).await?;
    delete_all(&facts.checks, ctx).await?;
    delete_all(&facts.accounts, ctx).await?;
    if facts.machines.is_empty() && facts.sets.is_empty() {
        delete_all(&facts.config_templates, ctx).await?;
        delete_all(&facts.machine_templates, ctx).await?;
    }
    if !is_empty(facts) {
        return Err(Error::Waiting(remaining(facts)));
    }
    ctx.api.remove_finalizer(tkc, finalizer::TKC).await?;
    Ok(())
}

async fn delete_all<K: Watchable>(objects: &[Arc<K>], ctx: &Context) -> Result<(), Error> {
    for object in objects {
        ctx.api.delete(&**object).await?;
    }
    Ok(())
}
