//! Reads the facts for a move from a management cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use api::names::{PROVIDER_ID_PREFIX, VMOP_NAMESPACE, annotation, label};
use api::vmop::{PROVIDER_CONFIGURATION, ProviderConfiguration};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};

use super::facts::{ClusterFacts, Facts, MovedKey, MovedNamespace, MovedObject, Pause};
use crate::kube::connection::{api_in, dynamic_api_in, served};

/// The annotation of a target's namespace with the UID of the management cluster from which its copies come.
pub const ORIGIN: &str = "run.tanzu.vmware.com/moved-from";
/// The cluster kinds.
const CLUSTER: &str = "Cluster";
const TANZU_KUBERNETES_CLUSTER: &str = "TanzuKubernetesCluster";
/// The release kind: group, version, kind, plural.
const RELEASE: (&str, &str, &str, &str) =
    ("run.tanzu.vmware.com", "v1alpha3", "TanzuKubernetesRelease", "tanzukubernetesreleases");
/// `clusterctl move`'s field manager.
const CLUSTERCTL: &str = "clusterctl";
/// Owners whose dependents are created again in the target.
const CREATED_AGAIN: [&str; 2] = ["ProviderServiceAccount", "ServiceAccount"];
/// Secrets and ConfigMaps that exist in each namespace.
const EVERYWHERE: [&str; 1] = ["kube-root-ca.crt"];

/// A kind that clusterctl moves.
#[derive(Clone, Debug)]
pub struct MovedKind {
    pub resource: ApiResource,
    /// True if clusterctl moves all objects with this kind, even without a cluster.
    pub is_shared: bool,
    pub is_namespaced: bool,
    schema: serde_json::Value,
}

/// Returns the kinds that clusterctl moves, by name.
pub async fn moved_kinds(client: &Client) -> Result<BTreeMap<String, MovedKind>> {
    let labelled = ListParams::default().labels(label::CLUSTERCTL);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = definitions.list(&labelled).await.context("cannot list the kinds")?;
    Ok(definitions.into_iter().filter_map(read_kind).collect())
}

fn read_kind(definition: CustomResourceDefinition) -> Option<(String, MovedKind)> {
    let is_shared = definition.labels().contains_key(label::CLUSTERCTL_MOVE);
    let spec = definition.spec;
    let stored = |version: &&CustomResourceDefinitionVersion| version.storage && version.served;
    let version =
        spec.versions.iter().find(stored).or_else(|| spec.versions.iter().find(|one| one.served))?;
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let resource = ApiResource {
        api_version: format!("{}/{}", spec.group, version.name),
        group: spec.group.clone(),
        version: version.name.clone(),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    };
    let kind = MovedKind {
        resource,
        is_shared,
        is_namespaced: spec.scope == "Namespaced",
        schema: schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default(),
    };
    Some((spec.names.kind, kind))
}

/// Reads the facts about one management cluster.
pub async fn gather(client: &Client, kinds: &BTreeMap<String, MovedKind>) -> Result<Facts> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), VMOP_NAMESPACE);
    let configuration = maps.get_opt(PROVIDER_CONFIGURATION).await;
    let configuration = configuration.context("cannot read the provider configuration")?;
    let configuration =
        configuration.map(|map| ProviderConfiguration::from_data(&map.data.unwrap_or_default()));
    let configured = configuration.as_ref().map(|one| one.stack_id.clone()).filter(|id| !id.is_empty());
    let stack_id = match configured {
        Some(id) => Some(id),
        None => vmop::leftovers::drawn_stack_id(client, VMOP_NAMESPACE)
            .await
            .context("cannot read the StackID")?,
    };
    let all = ListParams::default();
    let named: Api<Namespace> = Api::all(client.clone());
    let named = named.list_metadata(&all).await.context("cannot list namespaces")?.items;
    let mut namespaces = namespaces(client, kinds).await?;
    for namespace in &named {
        if let Some(facts) = namespaces.get_mut(&namespace.name_any()) {
            facts.origin = namespace.annotations().get(ORIGIN).cloned();
        }
    }
    let system = named.iter().find(|namespace| namespace.name_any() == "kube-system");
    let releases = served(dynamic_api_in(client, RELEASE, None).list_metadata(&all).await);
    let releases = releases.context("cannot list the releases")?;
    Ok(Facts {
        uid: system.and_then(kube::ResourceExt::uid).unwrap_or_default(),
        kinds: kinds.iter().map(|(name, kind)| (name.clone(), kind.schema.clone())).collect(),
        configuration,
        stack_id,
        releases: releases.iter().map(kube::ResourceExt::name_any).collect(),
        namespaces,
    })
}

/// An object with its kind, as far as it decides about the move.
struct Read {
    key: MovedKey,
    metadata: ObjectMeta,
    data: serde_json::Value,
}

/// Reads the clusters' objects in all namespaces.
async fn namespaces(
    client: &Client,
    kinds: &BTreeMap<String, MovedKind>,
) -> Result<BTreeMap<String, MovedNamespace>> {
    let all = ListParams::default();
    let mut read: BTreeMap<String, Vec<Read>> = BTreeMap::new();
    let mut add = |kind: &str, metadata: ObjectMeta, data: serde_json::Value| {
        let key = MovedKey { kind: kind.to_owned(), name: metadata.name.clone().unwrap_or_default() };
        let namespace = metadata.namespace.clone().unwrap_or_default();
        read.entry(namespace).or_default().push(Read { key, metadata, data });
    };
    for (name, kind) in kinds.iter().filter(|(_, kind)| kind.is_namespaced && !kind.is_shared) {
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource);
        let objects = objects.list(&all).await.with_context(|| format!("cannot list {name} objects"))?;
        for object in objects {
            add(name, object.metadata, object.data);
        }
    }
    for (kind, all) in [
        ("Secret", metadata_of::<Secret>(client).await?),
        ("ConfigMap", metadata_of::<ConfigMap>(client).await?),
        ("PersistentVolumeClaim", metadata_of::<PersistentVolumeClaim>(client).await?),
    ] {
        for metadata in all {
            add(kind, metadata, serde_json::Value::Null);
        }
    }
    let facts = read.into_iter().map(|(namespace, objects)| (namespace, namespace_facts(objects)));
    Ok(facts.filter(|(_, facts)| !facts.clusters.is_empty() || !facts.objects.is_empty()).collect())
}

/// Lists objects without their contents, which may be secret.
async fn metadata_of<K>(client: &Client) -> Result<Vec<ObjectMeta>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let listed = api_in::<K>(client, None).list_metadata(&ListParams::default()).await;
    let listed = listed.with_context(|| format!("cannot list {} objects", K::kind(&())))?;
    Ok(listed.items.into_iter().map(|object| object.metadata).collect())
}

/// Separates the clusters' objects in one namespace from the others.
fn namespace_facts(objects: Vec<Read>) -> MovedNamespace {
    let mut facts = MovedNamespace::default();
    let owners: BTreeMap<MovedKey, Vec<MovedKey>> =
        objects.iter().map(|object| (object.key.clone(), owners(&object.metadata))).collect();
    let named: BTreeSet<String> = objects.iter().filter(|one| is_cluster(&one.key)).map(name_of).collect();
    for object in objects {
        let cluster = cluster_of(&object.key, &owners, 0).or_else(|| {
            let labelled = object.metadata.labels.as_ref()?.get(label::CLUSTER_NAME)?;
            (object.key.kind == "Secret" && named.contains(labelled)).then(|| labelled.clone())
        });
        let is_created_again =
            owners[&object.key].iter().any(|owner| CREATED_AGAIN.contains(&owner.kind.as_str()));
        match cluster {
            _ if is_created_again || EVERYWHERE.contains(&object.key.name.as_str()) => {}
            Some(cluster) if object.key.kind == "PersistentVolumeClaim" => {
                drop(cluster);
                facts.claims.insert(object.key.name);
            }
            Some(cluster) => add(&mut facts, cluster, object),
            None => note_other(&mut facts, object),
        }
    }
    facts
}

fn add(facts: &mut MovedNamespace, cluster: String, object: Read) {
    if is_cluster(&object.key) {
        read_cluster(facts.clusters.entry(object.key.name.clone()).or_default(), &object);
    }
    if object.key.kind == "Machine"
        && let Some(id) = object.data["spec"]["providerID"].as_str()
    {
        facts.vms.insert(id.trim_start_matches(PROVIDER_ID_PREFIX).to_owned());
    }
    let has_annotation = |name: &str| object.metadata.annotations.iter().any(|all| all.contains_key(name));
    let moved = MovedObject {
        cluster,
        is_marked: has_annotation(annotation::DELETE_FOR_MOVE),
        obstacle: obstacle(&object, has_annotation(annotation::BLOCK_MOVE)),
    };
    facts.objects.insert(object.key, moved);
}

/// Returns the reason why an object can't be moved yet.
fn obstacle(object: &Read, is_blocked: bool) -> Option<String> {
    let status = &object.data["status"];
    let kind = object.key.kind.as_str();
    let is_initialized = |what: &str| status["initialization"][what] == true;
    if object.metadata.deletion_timestamp.is_some()
        && matches!(kind, CLUSTER | TANZU_KUBERNETES_CLUSTER | "Machine")
    {
        return Some("is being deleted. Wait until it is gone".to_owned());
    }
    if is_blocked {
        let name = annotation::BLOCK_MOVE;
        return Some(format!("has the annotation {name}. Wait until its controller removes it"));
    }
    match kind {
        CLUSTER
            if !is_initialized("infrastructureProvisioned") || !is_initialized("controlPlaneInitialized") =>
        {
            Some("has no running API server yet. Wait until it has, or delete it".to_owned())
        }
        "Machine" if status["nodeRef"]["name"].is_null() => {
            Some("has no node yet. Wait until it has, or delete it".to_owned())
        }
        _ => None,
    }
}

/// Records an object that clusterctl leaves where it is.
fn note_other(facts: &mut MovedNamespace, object: Read) {
    let labels = object.metadata.labels.unwrap_or_default();
    let is_labelled = [label::CLUSTERCTL_MOVE, label::CLUSTERCTL_MOVE_HIERARCHY]
        .iter()
        .any(|name| labels.contains_key(*name));
    let is_owned = object.metadata.owner_references.is_some_and(|owners| !owners.is_empty());
    if !is_labelled && !is_owned {
        facts.others.entry(object.key.kind).or_default().insert(object.key.name);
    }
}

fn read_cluster(facts: &mut ClusterFacts, object: &Read) {
    let labels = object.metadata.labels.clone().unwrap_or_default();
    if object.key.kind == TANZU_KUBERNETES_CLUSTER {
        facts.is_tanzu_kubernetes_cluster = true;
        let made_as = object.metadata.annotations.as_ref().and_then(|all| all.get(annotation::MADE_AS));
        facts.is_made_elsewhere = made_as.is_some_and(|uid| object.metadata.uid.as_ref() != Some(uid));
    }
    if let Some(release) = labels.get(label::TKR) {
        facts.release = Some(release.clone());
    }
    if object.key.kind == CLUSTER {
        let endpoint = &object.data["spec"]["controlPlaneEndpoint"];
        facts.endpoint = endpoint["host"].as_str().map(|host| format!("{host}:{}", endpoint["port"]));
        facts.pause = pause(object);
        facts.has_cluster = true;
    }
}

fn pause(cluster: &Read) -> Pause {
    if cluster.metadata.annotations.iter().any(|all| all.contains_key(annotation::PAUSED)) {
        return Pause::ByOthers;
    }
    if cluster.data["spec"]["paused"] != true {
        return Pause::None;
    }
    let mut managers = cluster.metadata.managed_fields.iter().flatten();
    let by_move = managers.any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:spec"]["f:paused"]);
        entry.manager.as_deref() == Some(CLUSTERCTL) && fields.is_some_and(|field| !field.is_null())
    });
    if by_move { Pause::ByMove } else { Pause::ByOthers }
}

fn is_cluster(key: &MovedKey) -> bool {
    [CLUSTER, TANZU_KUBERNETES_CLUSTER].contains(&key.kind.as_str())
}

fn name_of(object: &Read) -> String {
    object.key.name.clone()
}

fn owners(metadata: &ObjectMeta) -> Vec<MovedKey> {
    let owners = metadata.owner_references.iter().flatten();
    owners.map(|owner| MovedKey { kind: owner.kind.clone(), name: owner.name.clone() }).collect()
}

/// Returns the cluster that directly or indirectly owns an object.
fn cluster_of(key: &MovedKey, owners: &BTreeMap<MovedKey, Vec<MovedKey>>, depth: usize) -> Option<String> {
    /// Owner chains are shorter. The limit ends cycles.
    const MAX_DEPTH: usize = 16;
    if is_cluster(key) {
        return Some(key.name.clone());
    }
    if depth == MAX_DEPTH {
        return None;
    }
    owners.get(key)?.iter().find_map(|owner| cluster_of(owner, owners, depth + 1))
}
