//! Deletes a WCPCluster: waits until its machines are gone, then deletes the shared objects, then removes the finalizer.

use std::sync::Arc;

use api::capw::WCPCluster;
use api::names::finalizer;
use kit::events::describe_object;
use kit::watch::Watchable;
use kube::ResourceExt;

use super::context::Context;
use super::gather::Facts;
use crate::error::{Error, Waiting};
use crate::upstream::is_controlled;

/// Carries out the next deletion step. Returns an error while objects still exist.
pub async fn carry_out(cluster: &WCPCluster, facts: &Facts, ctx: &Context) -> Result<(), Error> {
    if !cluster.finalizers().iter().any(|there| there == finalizer::WCP_CLUSTER) {
        return Ok(());
    }
    if !facts.machines.is_empty() {
        return Err(Waiting::MachinesGone(facts.machines.clone()).into());
    }
    let mut left = Vec::new();
    left.extend(delete_child(cluster, facts.service.as_ref(), ctx).await?);
    for claim in facts.address_claim.iter().chain(&facts.former_claims) {
        left.extend(delete_child(cluster, Some(claim), ctx).await?);
    }
    left.extend(delete_child(cluster, facts.network.as_ref(), ctx).await?);
    left.extend(delete_child(cluster, facts.policy.as_ref(), ctx).await?);
    if !left.is_empty() {
        return Err(Waiting::ChildrenGone(left.join(", ")).into());
    }
    let removed = ctx.api.remove_finalizer(cluster, finalizer::WCP_CLUSTER).await;
    removed.map_err(Error::api(cluster, "removing the finalizer of")).map(drop)
}

/// Deletes a child that this WCPCluster controls, and returns the child as `Kind namespace/name`. Returns `None` for any other
/// child.
async fn delete_child<K: Watchable>(
    cluster: &WCPCluster,
    child: Option<&Arc<K>>,
    ctx: &Context,
) -> Result<Option<String>, Error> {
    let Some(child) = child.filter(|child| is_controlled(cluster, &***child)) else {
        return Ok(None);
    };
    ctx.api.delete(&**child).await.map_err(Error::api(&**child, "deleting"))?;
    Ok(Some(describe_object(&**child)))
}
