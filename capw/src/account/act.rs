//! All writes of an account reconcile, except status and deletion.

use api::capw::ProviderServiceAccount;
use api::names::finalizer;
use kit::watch::Watchable;
use serde::Serialize;

use super::context::Context;
use super::error::Error;
use super::gather::{Facts, GuestFacts};
use super::guest::AccountSecretClient;
use super::plan::Plan;

/// Carries out the plan, starting with the finalizer. Writes the workload cluster's Secret last, after the objects that its
/// token depends on.
pub async fn carry_out(
    account: &ProviderServiceAccount,
    plan: Plan,
    facts: &Facts,
    guest: Option<&AccountSecretClient>,
    ctx: &Context,
) -> Result<(), Error> {
    let Plan { service_account, role, binding, token, in_guest } = plan;
    let marked = ctx.api.add_finalizer(account, finalizer::PROVIDER_SERVICE_ACCOUNT).await;
    marked.map_err(Error::api(account, "adding the finalizer to"))?;
    write(service_account, ctx).await?;
    write(role, ctx).await?;
    write(binding, ctx).await?;
    write(token, ctx).await?;
    let secret = in_guest?;
    if let (Some(secret), Some(guest), GuestFacts::Seen(live)) = (secret, guest, &facts.guest) {
        guest.write(&secret, live.as_deref()).await?;
        let name = format!("{}/{}", account.spec.target_namespace, account.spec.target_secret_name);
        ctx.events.normal(account, "TokenWritten", format!("Secret {name} of the cluster has the token"));
    }
    Ok(())
}

/// Creates an object, or applies the planned fields if the plan contains the UID of an existing object.
async fn write<K: Watchable + Serialize>(intent: Option<K>, ctx: &Context) -> Result<(), Error> {
    let Some(intent) = intent else { return Ok(()) };
    let written = if intent.meta().uid.is_some() {
        ctx.api.apply(&intent, None).await.map(drop)
    } else {
        ctx.api.create(&intent).await.map(drop)
    };
    written.map_err(Error::api(&intent, "writing"))
}
