//! Deletes an account: first the Secret in the workload cluster, if the cluster isn't being deleted and is reachable, then the
//! objects in the account's namespace.

use api::capi::Cluster;
use api::capw::ProviderServiceAccount;
use api::names::finalizer;
use kit::watch::Watchable;
use kube::ResourceExt;

use super::context::Context;
use super::error::{Error, Stop};
use super::gather::{Children, children, connect, server_of};
use super::guest::CALL;
use super::plan::check_target;
use crate::upstream::is_controlled;

/// Deletes the account's objects, and removes the finalizer.
pub async fn carry_out(
    account: &ProviderServiceAccount,
    cluster: Option<&Cluster>,
    ctx: &Context,
) -> Result<(), Error> {
    if !account.finalizers().iter().any(|there| there == finalizer::PROVIDER_SERVICE_ACCOUNT) {
        return Ok(());
    }
    // A Secret that can't be deleted is harmless: its token is invalid without the ServiceAccount, which is deleted in any case.
    match tokio::time::timeout(CALL, remove_from_guest(account, cluster, ctx)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn_of_kept(account, &error.to_string(), ctx),
        Err(_) => warn_of_kept(account, &format!("no answer within {} s", CALL.as_secs()), ctx),
    }
    // Kubernetes deletes the token Secret with its ServiceAccount.
    let Children { service_account, role, binding, token: _ } = children(account, ctx).await?;
    delete(account, binding, ctx).await?;
    delete(account, role, ctx).await?;
    delete(account, service_account, ctx).await?;
    let removed = ctx.api.remove_finalizer(account, finalizer::PROVIDER_SERVICE_ACCOUNT).await;
    removed.map_err(Error::api(account, "removing the finalizer of")).map(drop)
}

fn warn_of_kept(account: &ProviderServiceAccount, why: &str, ctx: &Context) {
    let name = format!("{}/{}", account.spec.target_namespace, account.spec.target_secret_name);
    let note = format!("Secret {name} remains in the cluster, but its token is no longer valid: {why}");
    ctx.events.warning(account, "SecretKept", note);
}

/// Deletes the Secret in the workload cluster. Does nothing if the cluster is being deleted too, its API server isn't known
/// yet, or the account's target is invalid.
async fn remove_from_guest(
    account: &ProviderServiceAccount,
    cluster: Option<&Cluster>,
    ctx: &Context,
) -> Result<(), Error> {
    let Some(cluster) = cluster else { return Ok(()) };
    if cluster.metadata.deletion_timestamp.is_some() || check_target(account).is_err() {
        return Ok(());
    }
    let Some(server) = server_of(cluster) else { return Ok(()) };
    match connect(account, &cluster.name_any(), &server, ctx).await? {
        Ok(guest) => Ok(guest.remove(account).await.map(drop)?),
        Err(why) => Err(Stop::Unreachable(why).into()),
    }
}

/// Deletes a child if this account controls it.
async fn delete<K: Watchable>(
    account: &ProviderServiceAccount,
    child: Option<K>,
    ctx: &Context,
) -> Result<(), Error> {
    let Some(child) = child.filter(|child| is_controlled(account, child)) else { return Ok(()) };
    ctx.api.delete(&child).await.map_err(Error::api(&child, "deleting")).map(drop)
}

#[cfg(test)]
mod tests;
