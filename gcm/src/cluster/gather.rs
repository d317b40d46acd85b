//! Reads the facts for one reconcile from caches, and the cluster's Secrets, which aren't cached, from the API server.

use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use api::names;
use jiff::Timestamp;
use kit::apply;
use kit::controller::controller_of;
use kit::expectations::StaleCache;
use kit::index::key;
use kit::watch::Watchable;
use kube::ResourceExt;

use super::context::Context;
use super::encryption;
use super::encryption::gather::Encryption;
use super::error::Error;
use super::facts::{Facts, ReleaseLookup};
use super::login;
use super::login::gather::Login;
use super::pause::{self, origin};

/// The facts for one reconcile, and the cluster's Secrets.
pub struct FactsWithSecrets {
    pub facts: Facts,
    /// The Secrets, or the error of reading them, with which the status is still computed. `None` if no objects are planned.
    pub secrets: Option<Result<ClusterSecrets, Error>>,
}

/// The contents of a cluster's Secrets. Contents of missing Secrets are generated.
pub struct ClusterSecrets {
    pub login: Login,
    pub encryption: Encryption,
}

impl ClusterSecrets {
    /// Reads the Secrets.
    pub async fn read(tkc: &TanzuKubernetesCluster, facts: &Facts, api: &apply::Api) -> Result<Self, Error> {
        let login = login::gather::gather(tkc, api).await?;
        let encryption = encryption::gather::gather(tkc, facts, api).await?;
        Ok(Self { login, encryption })
    }
}

/// Reads everything for one reconcile. Fails if a cache is older than gcm's own last write.
pub async fn gather(tkc: &TanzuKubernetesCluster, ctx: &Context) -> Result<FactsWithSecrets, StaleCache> {
    let facts = read_facts(tkc, ctx)?;
    let mut read = FactsWithSecrets { facts, secrets: None };
    if is_planned(tkc, &read.facts) {
        read.secrets = Some(ClusterSecrets::read(tkc, &read.facts, &ctx.api).await);
    }
    Ok(read)
}

/// Returns true if the reconcile plans the cluster's objects.
fn is_planned(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    tkc.metadata.deletion_timestamp.is_none()
        && !facts.is_cluster_deleted()
        && !origin::is_arriving(tkc, facts)
        && pause::describe(tkc, facts).is_none()
}

/// Reads the facts about one cluster. Fails if a cache is older than gcm's own last write.
fn read_facts(tkc: &TanzuKubernetesCluster, ctx: &Context) -> Result<Facts, StaleCache> {
    let namespace = tkc.namespace();
    let (namespace, name) = (namespace.as_deref(), tkc.name_any());
    let of = key(namespace, &name);
    let kinds = &ctx.kinds;
    let cluster = kinds.clusters.cache.current(namespace, &name)?;
    // If a Cluster with this name belongs to another owner, ignore the machines: they belong to that Cluster.
    let others = cluster.as_deref().is_some_and(|cluster| !is_of(cluster, tkc));
    let guest = ctx.guests.reports(&of);
    Ok(Facts {
        virtual_ip: ctx.virtual_ip.clone(),
        health: ctx.health.clone(),
        management: ctx.management.clone(),
        now: Timestamp::now(),
        available_releases: ctx.release_cache.available(),
        releases: ReleaseLookup::new(ctx.release_cache.clone(), ctx.os_images.clone(), ctx.vm_images.clone()),
        cluster: cluster.filter(|_| !others),
        wcp_cluster: kinds.wcp_clusters.cache.current(namespace, &name)?.filter(|found| is_of(&**found, tkc)),
        control_plane: kinds
            .control_planes
            .cache
            .current(namespace, &names::control_plane(&name))?
            .filter(|found| is_of(&**found, tkc)),
        machine_templates: kinds.machine_templates.settled(&of)?,
        config_templates: kinds.config_templates.settled(&of)?,
        deployments: kinds.deployments.settled(&of)?,
        checks: kinds.checks.settled(&of)?,
        accounts: kinds.accounts.settled(&of)?,
        sets: if others { Vec::new() } else { kinds.sets.sorted(&of) },
        machines: if others { Vec::new() } else { kinds.machines.sorted(&of) },
        wcp_machines: if others { Vec::new() } else { kinds.wcp_machines.sorted(&of) },
        bundles: ctx.bundles.objects(namespace.unwrap_or_default()),
        addons: guest.as_ref().map(|guest| Arc::clone(&guest.addons)),
        namespace: ctx.namespaces.facts(namespace.unwrap_or_default()),
        synced: guest.as_ref().map(|guest| Arc::clone(&guest.synced)),
        survey: guest.as_ref().and_then(|guest| guest.survey.clone()),
        addons_for: guest.map(|guest| guest.kubernetes),
    })
}

/// Returns true if the TanzuKubernetesCluster controls the object. Owners are compared by name.
pub fn is_of<K: Watchable>(object: &K, tkc: &TanzuKubernetesCluster) -> bool {
    controller_of::<TanzuKubernetesCluster, K>(object).is_some_and(|owner| owner.name == tkc.name_any())
}
