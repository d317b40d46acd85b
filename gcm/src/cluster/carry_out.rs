//! Carries out a plan: contains all writes that create or update a cluster's objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::capi::MachineDeployment;
use api::gcm::TanzuKubernetesCluster;
use kit::apply::is_already_exists;
use kit::controller::controller_of;
use kit::index::key;
use kit::watch::Watchable;
use kit::{Next, ReconcileError};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::Serialize;

use super::applied::{Applied, RequestedGuest};
use super::cluster_secret::NewSecrets;
use super::context::{Context, KindCache};
use super::error::Error;
use super::facts::Facts;
use super::network::cluster;
use super::node_groups::machines;
use super::plan::{Obsolete, Plan};
use super::reconcile_plan::{PlannedObjects, ReconcilePlan};

/// The field manager that owns a pool's replicas after the cluster's spec stops setting them.
const REPLICAS_MANAGER: &str = "gcm/replicas";

/// The result of a reconcile's writes.
pub struct Done {
    pub applied: Applied,
    /// The time of the next reconcile, or the error after which other objects weren't written.
    pub result: Result<Next, Error>,
}

/// Carries out the plan, starting with the origin. Sets `tkc` to the version that was written.
///
/// # Errors
/// Fails if nothing or only the origin was written, or if the reconcile is overtaken. [`Done`] contains other errors.
pub async fn carry_out(
    tkc: &mut Arc<TanzuKubernetesCluster>,
    plan: ReconcilePlan,
    facts: &Facts,
    ctx: &Context,
) -> Result<Done, Error> {
    let ReconcilePlan { origin, objects } = plan;
    if let Some(origin) = origin {
        *tkc = Arc::new(ctx.api.patch(&**tkc, origin.patch()).await?);
    }
    let PlannedObjects { plan, next, unusable_secret } = objects?;
    let mut applied = Applied::default();
    let outcome = Box::pin(apply_plan(plan, facts, &mut applied, ctx)).await;
    match outcome.and(unusable_secret.map_or(Ok(next), |why| Err(Error::Secret(why)))) {
        Err(error) if error.is_overtaken() => Err(error),
        result => Ok(Done { applied, result }),
    }
}

/// Applies the objects in dependency order, and deletes obsolete objects last. `done` contains the applied objects, even after an
/// error.
///
/// The Cluster is applied before its infrastructure and control plane, so that these objects get an owner reference to the
/// Cluster at once. Otherwise controllers would wait a second or two until Cluster API adds the reference.
async fn apply_plan(plan: Plan, facts: &Facts, done: &mut Applied, ctx: &Context) -> Result<(), Error> {
    let Plan {
        new_secrets,
        machine_templates,
        config_templates,
        mut wcp_cluster,
        mut control_plane,
        cluster,
        deployments,
        checks,
        accounts,
        addons,
        obsolete,
    } = plan;
    let kinds = &ctx.kinds;
    create_secrets(new_secrets, ctx).await?;
    apply_all(&machine_templates, &kinds.machine_templates, ctx).await?;
    apply_all(&config_templates, &kinds.config_templates, ctx).await?;
    let applied = apply(&cluster, &kinds.clusters, &ctx.api).await?;
    cluster::join(&mut wcp_cluster, &applied);
    cluster::join(&mut control_plane, &applied);
    done.cluster = Some(applied);
    done.wcp_cluster = Some(apply(&wcp_cluster, &kinds.wcp_clusters, &ctx.api).await?);
    done.control_plane = Some(apply(&control_plane, &kinds.control_planes, &ctx.api).await?);
    for deployment in &deployments {
        hand_over(deployment, facts, ctx).await?;
        done.deployments.push(apply(deployment, &kinds.deployments, &ctx.api).await?);
    }
    apply_all(&checks, &kinds.checks, ctx).await?;
    apply_all(&accounts, &kinds.accounts, ctx).await?;
    if let Some(addons) = addons {
        ctx.guests.want(&cluster.namespace().unwrap_or_default(), &cluster.name_any(), addons);
        let key = key(cluster.namespace().as_deref(), &cluster.name_any());
        done.guest = Some(RequestedGuest(ctx.guests.reports(&key)));
    }
    remove_obsolete(obsolete, facts, ctx).await
}

/// Creates the missing Secrets before any object refers to them, in an order that leaves a usable state after a crash.
async fn create_secrets(NewSecrets(secrets): NewSecrets, ctx: &Context) -> Result<(), Error> {
    for secret in secrets {
        match ctx.api.create(&secret).await {
            Ok(_) => {}
            Err(error) if is_already_exists(&error) => {
                return Err(Error::Settling(format!(
                    "Secret {}, which another client has just created",
                    secret.name_any()
                )));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn apply_all<K: Watchable + Serialize>(
    intents: &[K],
    kind: &KindCache<K>,
    ctx: &Context,
) -> Result<(), Error> {
    for intent in intents {
        apply(intent, kind, &ctx.api).await?;
    }
    Ok(())
}

/// Transfers the ownership of a pool's replicas to another field manager if the spec stops setting them.
///
/// Otherwise gcm, as the only owner, would remove the field with its server-side apply, and Cluster API would default it to 1.
async fn hand_over(intent: &MachineDeployment, facts: &Facts, ctx: &Context) -> Result<(), Error> {
    let live = facts.deployments.iter().find(|live| live.name_any() == intent.name_any());
    if let Some(document) = live.and_then(|live| machines::hand_over_replicas(intent, live)) {
        let api = Api::<MachineDeployment>::namespaced(
            ctx.api.client().clone(),
            &intent.namespace().unwrap_or_default(),
        );
        let params = PatchParams::apply(REPLICAS_MANAGER).force();
        api.patch(&intent.name_any(), &params, &Patch::Apply(document)).await?;
    }
    Ok(())
}

/// Applies one object. Fails if an object with this name has another owner. An object that isn't in the cache is created instead
/// of applied, so that another client's object that has just appeared isn't changed before its owner can be checked.
async fn apply<K: Watchable + Serialize>(
    intent: &K,
    kind: &KindCache<K>,
    api: &kit::apply::Api,
) -> Result<Arc<K>, Error> {
    let live = kind.cache.current(intent.namespace().as_deref(), &intent.name_any())?;
    if let Some(live) = &live
        && owner(&**live) != owner(intent)
    {
        return Err(Error::Taken(kit::events::describe_object(&**live)));
    }
    match Box::pin(api.create_or_apply_whole(intent, live.as_ref())).await {
        Ok(applied) => Ok(Arc::clone(applied.object())),
        Err(error) if is_already_exists(&error) => Err(Error::Settling(format!(
            "{}, which another client has just created",
            kit::events::describe_object(intent)
        ))),
        Err(error) => Err(error.into()),
    }
}

fn owner<K: Watchable>(object: &K) -> Option<String> {
    controller_of::<TanzuKubernetesCluster, K>(object).map(|owner| owner.name)
}

async fn remove_obsolete(obsolete: Obsolete, facts: &Facts, ctx: &Context) -> Result<(), Error> {
    let Obsolete { deployments, checks, machine_templates, config_templates, accounts } = obsolete;
    remove(&deployments, &facts.deployments, ctx).await?;
    remove(&checks, &facts.checks, ctx).await?;
    remove(&machine_templates, &facts.machine_templates, ctx).await?;
    remove(&config_templates, &facts.config_templates, ctx).await?;
    remove(&accounts, &facts.accounts, ctx).await
}

async fn remove<K: Watchable>(names: &BTreeSet<String>, live: &[Arc<K>], ctx: &Context) -> Result<(), Error> {
    for object in live.iter().filter(|object| names.contains(&object.name_any())) {
        ctx.api.delete(&**object).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api::capi::Cluster;
    use kit::Runtime;
    use kit::watch::Cache;
    use serde_json::{Value, json};
    use support::api_server::{Request, refusal, server};

    use super::*;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("c".to_owned());
        cluster.metadata.namespace = Some("ns".to_owned());
        cluster
    }

    /// Applies a Cluster that the cache doesn't contain. Returns the result and the requests.
    async fn applied(
        reply: impl Fn(&Request) -> (u16, Value) + Send + Sync + 'static,
    ) -> (Result<Arc<Cluster>, Error>, Vec<Request>) {
        let (client, requests) = server(reply);
        let api = kit::apply::Api::new(&Runtime::detached(client), "gcm/cluster");
        let kind = KindCache::owned(Cache::new(Arc::default()).0);
        let result = apply(&cluster(), &kind, &api).await;
        let sent = requests.lock().clone();
        (result, sent)
    }

    #[tokio::test]
    async fn a_namesake_that_was_made_in_the_same_second_is_not_taken_over() {
        let (result, sent) = applied(|_| refusal(409, "AlreadyExists")).await;
        assert!(
            matches!(result, Err(Error::Settling(what)) if what.contains("another client has just created"))
        );
        assert_eq!(
            sent.iter().map(Request::line).collect::<Vec<_>>(),
            ["POST /apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters"]
        );
    }

    #[tokio::test]
    async fn what_was_created_is_ours_as_if_it_had_been_applied() {
        let fields = json!({"f:spec": {}});
        let entry = |operation: &str, manager: &str| {
            json!({
                "manager": manager, "operation": operation, "apiVersion": "cluster.x-k8s.io/v1beta2",
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            })
        };
        let managed = json!([entry("Update", "gcm/cluster"), entry("Update", "manager")]);
        let live = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {},
            "metadata": {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "7", "managedFields": managed},
        });
        let (result, sent) = applied(move |_| (200, live.clone())).await;
        result.expect("it is created");
        assert_eq!(sent.iter().map(|request| request.method.as_str()).collect::<Vec<_>>(), ["POST", "PATCH"]);
        let metadata = &sent[1].body["metadata"];
        assert_eq!(metadata["managedFields"][0]["operation"], "Apply");
        assert_eq!(metadata["managedFields"][1]["operation"], "Update", "another's fields stay another's");
        assert_eq!((&metadata["resourceVersion"], &metadata["uid"]), (&json!("7"), &json!("u")));
    }
}
