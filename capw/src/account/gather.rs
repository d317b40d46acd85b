//! Every read of an account's reconcile.

use std::sync::Arc;

use api::capi::Cluster;
use api::capw::ProviderServiceAccount;
use api::names;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kit::guest::server;
use kit::watch::Watchable;
use kube::{Resource, ResourceExt};

use super::context::Context;
use super::credentials::{Credentials, is_current};
use super::error::{Error, Stop};
use super::guest::Guest;
use crate::caches::Caches;
use crate::upstream::{self, beside};

/// What an account has in its own namespace.
#[derive(Clone, Default)]
pub struct Children {
    /// Who has the rights.
    pub service_account: Option<ServiceAccount>,
    /// The rights.
    pub role: Option<Role>,
    /// Who has which.
    pub binding: Option<RoleBinding>,
    /// The Secret for which Kubernetes makes a token.
    pub token: Option<Secret>,
}

/// What is known of the guest.
pub enum GuestFacts {
    /// There is no token to bring yet: nobody looked.
    Unneeded,
    /// It does not answer, and why.
    Unreachable(String),
    /// It answers, and has this Secret in the place of ours.
    Seen(Option<Box<Secret>>),
}

/// What is known when a plan is made.
pub struct Facts {
    /// The Cluster of the guest.
    pub cluster: Option<Arc<Cluster>>,
    /// Where the guest's API server answers, once it does.
    pub server: Option<String>,
    /// What is in the account's namespace.
    pub children: Children,
    /// What is in the guest.
    pub guest: GuestFacts,
}

/// The Cluster whose guest gets the token: the one that owns the WCPCluster, and says so.
pub fn cluster(account: &ProviderServiceAccount, caches: &Caches) -> Option<Arc<Cluster>> {
    let wcp_cluster = beside(&caches.wcp_clusters, account, account.spec.r#ref.name.as_deref()?)?;
    let cluster = beside(&caches.clusters, account, upstream::owner(&*wcp_cluster, "Cluster")?)?;
    upstream::is_named_by_cluster(&wcp_cluster, &cluster).then_some(cluster)
}

/// Where the API server of a Cluster answers, once its control plane is initialised.
pub fn server_of(cluster: &Cluster) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.as_deref().filter(|host| !host.is_empty())?;
    let port = endpoint.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
    upstream::is_control_plane_initialized(cluster).then(|| server(host, port))
}

/// Reads what the plan needs: Secrets and rights from the API server, which nobody watches, and the guest's Secret.
/// Returns the guest, too, if it answers.
pub async fn facts(
    account: &ProviderServiceAccount,
    cluster: Option<Arc<Cluster>>,
    ctx: &Context,
) -> Result<(Facts, Option<Guest>), Error> {
    let server = cluster.as_deref().and_then(server_of);
    let mut facts = Facts { cluster, server, children: Children::default(), guest: GuestFacts::Unneeded };
    let Some((cluster, server)) = facts.cluster.as_deref().zip(facts.server.as_deref()) else {
        return Ok((facts, None));
    };
    let children = children(account, ctx).await?;
    let mut guest = None;
    if has_credentials(&children) {
        (facts.guest, guest) = look_into(account, &cluster.name_any(), server, ctx).await?;
    }
    Ok((Facts { children, ..facts }, guest))
}

fn has_credentials(children: &Children) -> bool {
    let current = children.token.as_ref().zip(children.service_account.as_ref());
    current.is_some_and(|(token, of)| is_current(token, of) && Credentials::of(token).is_some())
}

/// What an account has in its own namespace.
pub async fn children(account: &ProviderServiceAccount, ctx: &Context) -> Result<Children, Error> {
    let name = account.name_any();
    Ok(Children {
        service_account: read(account, &name, ctx).await?,
        role: read(account, &name, ctx).await?,
        binding: read(account, &name, ctx).await?,
        token: read(account, &names::account_token_secret(&name), ctx).await?,
    })
}

async fn read<K: Watchable>(
    account: &ProviderServiceAccount,
    name: &str,
    ctx: &Context,
) -> Result<Option<K>, Error> {
    let found = ctx.api.get::<K>(account.meta().namespace.as_deref(), name).await;
    found.map_err(Error::api(account, &format!("reading the {} of", K::kind(&()))))
}

async fn look_into(
    account: &ProviderServiceAccount,
    cluster: &str,
    server: &str,
    ctx: &Context,
) -> Result<(GuestFacts, Option<Guest>), Error> {
    let guest = match connect(account, cluster, server, ctx).await? {
        Ok(guest) => guest,
        Err(why) => return Ok((GuestFacts::Unreachable(why), None)),
    };
    let spec = &account.spec;
    let secret = guest.secret(&spec.target_namespace, &spec.target_secret_name).await;
    match secret.map_err(Error::from) {
        Ok(secret) => Ok((GuestFacts::Seen(secret.map(Box::new)), Some(guest))),
        Err(Error::Stopped(Stop::Unreachable(why))) => Ok((GuestFacts::Unreachable(why), None)),
        Err(error) => Err(error),
    }
}

/// The guest's API server, with the credentials that Cluster API made; or why there are none.
pub async fn connect(
    account: &ProviderServiceAccount,
    cluster: &str,
    server: &str,
    ctx: &Context,
) -> Result<Result<Guest, String>, Error> {
    let name = names::kubeconfig_secret(cluster);
    let kubeconfig = read::<Secret>(account, &name, ctx).await?;
    let guest = match &kubeconfig {
        Some(kubeconfig) => {
            let namespace = account.namespace().unwrap_or_default();
            Guest::connect(&namespace, cluster, kubeconfig, server).await
        }
        None => Err("it does not exist yet".to_owned()),
    };
    Ok(guest.map_err(|why| format!("Secret {name}: {why}")))
}
