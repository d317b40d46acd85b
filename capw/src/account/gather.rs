//! Reads what the reconcile of a ProviderServiceAccount needs.

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
use super::credentials::{AccountCredentials, is_current};
use super::error::{Error, Stop};
use super::guest::AccountSecretClient;
use crate::caches::Caches;
use crate::upstream::{self, beside};

/// An account's objects in its own namespace.
#[derive(Clone, Default)]
pub struct Children {
    pub service_account: Option<ServiceAccount>,
    pub role: Option<Role>,
    pub binding: Option<RoleBinding>,
    /// The Secret in which Kubernetes creates the token.
    pub token: Option<Secret>,
}

/// The facts about the workload cluster.
pub enum GuestFacts {
    /// The cluster wasn't accessed, because its API server isn't known yet or the token doesn't exist yet.
    Unneeded,
    /// The API server doesn't answer, for this reason.
    Unreachable(String),
    /// The API server answers. Contains the Secret with the target name, if it exists.
    Seen(Option<Box<Secret>>),
}

/// The facts that [`facts`] read for one reconcile.
pub struct Facts {
    pub cluster: Option<Arc<Cluster>>,
    /// The URL of the workload cluster's API server, once its control plane is initialized.
    pub server: Option<String>,
    pub children: Children,
    pub guest: GuestFacts,
}

impl Facts {
    /// Returns the facts if nothing but the Cluster was read.
    pub fn of_cluster(cluster: Option<Arc<Cluster>>) -> Self {
        Self { cluster, server: None, children: Children::default(), guest: GuestFacts::Unneeded }
    }
}

/// Returns true if the account is paused, or its workload cluster is being deleted and doesn't need a token anymore. An account that
/// is being deleted itself is only held by a pause.
pub fn is_held(account: &ProviderServiceAccount, cluster: Option<&Cluster>) -> bool {
    let cluster_deleted = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some());
    upstream::is_paused(account, cluster) || (cluster_deleted && account.meta().deletion_timestamp.is_none())
}

/// Returns the Cluster that gets the token. This Cluster owns the account's WCPCluster and references it.
pub fn cluster(account: &ProviderServiceAccount, caches: &Caches) -> Option<Arc<Cluster>> {
    let wcp_cluster = beside(&caches.wcp_clusters, account, account.spec.r#ref.name.as_deref()?)?;
    let cluster = beside(&caches.clusters, account, upstream::owner(&*wcp_cluster, "Cluster")?)?;
    upstream::is_named_by_cluster(&wcp_cluster, &cluster).then_some(cluster)
}

/// Returns the URL of a Cluster's API server, once the control plane is initialized and the endpoint is valid.
pub fn server_of(cluster: &Cluster) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.as_deref().filter(|host| !host.is_empty())?;
    let port = endpoint.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
    upstream::is_control_plane_initialized(cluster).then(|| server(host, port))
}

/// Reads the facts for the plan: unwatched objects from the API server, and the workload cluster's Secret. Also returns the
/// client for the workload cluster, if the cluster is reachable.
pub async fn facts(
    account: &ProviderServiceAccount,
    cluster: Option<Arc<Cluster>>,
    ctx: &Context,
) -> Result<(Facts, Option<AccountSecretClient>), Error> {
    let server = cluster.as_deref().and_then(server_of);
    let mut facts = Facts { server, ..Facts::of_cluster(cluster) };
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
    current.is_some_and(|(token, of)| is_current(token, of) && AccountCredentials::of(token).is_some())
}

/// Reads an account's objects in its own namespace.
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
) -> Result<(GuestFacts, Option<AccountSecretClient>), Error> {
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

/// Returns a client for the workload cluster's API server at URL `server`, with the credentials in Cluster API's kubeconfig
/// Secret. If this Secret can't be used, returns the reason.
pub async fn connect(
    account: &ProviderServiceAccount,
    cluster: &str,
    server: &str,
    ctx: &Context,
) -> Result<Result<AccountSecretClient, String>, Error> {
    let name = names::kubeconfig_secret(cluster);
    let kubeconfig = read::<Secret>(account, &name, ctx).await?;
    let guest = match &kubeconfig {
        Some(kubeconfig) => {
            let namespace = account.namespace().unwrap_or_default();
            AccountSecretClient::connect(&namespace, cluster, kubeconfig, server).await
        }
        None => Err("it does not exist yet".to_owned()),
    };
    Ok(guest.map_err(|why| format!("Secret {name}: {why}")))
}
