//! Copies the objects that clusters need beside their own: the namespace's placement, quotas, classes, bundles and
//! roles. Existing objects in the target aren't changed.

use anyhow::{Context as _, Result};
use api::names::label;
use kit::objects::Objects;
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use crate::kube::connection::served;

/// Where a kind's objects are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespace,
    /// Like [`Self::Namespace`], but only objects with a label.
    Labelled(&'static str),
}

/// The kinds in creation order: group, version, kind, plural.
const KINDS: [(&str, &str, &str, &str, Scope); 13] = [
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", Scope::Cluster),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachineClass", "virtualmachineclasses", Scope::Cluster),
    (
        "vmoperator.vmware.com",
        "v1alpha1",
        "ContentLibraryProvider",
        "contentlibraryproviders",
        Scope::Cluster,
    ),
    ("vmoperator.vmware.com", "v1alpha1", "ContentSource", "contentsources", Scope::Cluster),
    (
        "run.tanzu.vmware.com",
        "v1alpha3",
        "TkgServiceConfiguration",
        "tkgserviceconfigurations",
        Scope::Cluster,
    ),
    ("ipam.cluster.x-k8s.io", "v1alpha2", "GlobalInClusterIPPool", "globalinclusterippools", Scope::Cluster),
    ("", "v1", "ResourceQuota", "resourcequotas", Scope::Namespace),
    ("", "v1", "LimitRange", "limitranges", Scope::Namespace),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", Scope::Namespace),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", Scope::Namespace),
    (
        "vmoperator.vmware.com",
        "v1alpha1",
        "VirtualMachineClassBinding",
        "virtualmachineclassbindings",
        Scope::Namespace,
    ),
    ("vmoperator.vmware.com", "v1alpha1", "ContentSourceBinding", "contentsourcebindings", Scope::Namespace),
    ("", "v1", "ConfigMap", "configmaps", Scope::Labelled(label::ADDON_NAME)),
];

/// Copies the objects from one management cluster to another. Returns each new copy's kind, namespace and name.
pub async fn copy(from: &Client, to: &Client, namespaces: &[&str], dry_run: bool) -> Result<Vec<String>> {
    let mut copied = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.4 == Scope::Cluster) {
        copy_kind(from, to, kind, None, dry_run, &mut copied).await?;
    }
    for namespace in namespaces {
        copy_kind(
            from,
            to,
            &("", "v1", "Namespace", "namespaces", Scope::Cluster),
            Some(namespace),
            dry_run,
            &mut copied,
        )
        .await?;
        for kind in KINDS.iter().filter(|kind| kind.4 != Scope::Cluster) {
            copy_kind(from, to, kind, Some(namespace), dry_run, &mut copied).await?;
        }
    }
    Ok(copied)
}

async fn copy_kind(
    from: &Client,
    to: &Client,
    (group, version, kind, plural, scope): &(&str, &str, &str, &str, Scope),
    namespace: Option<&str>,
    dry_run: bool,
    copied: &mut Vec<String>,
) -> Result<()> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api = |client: &Client| -> Api<DynamicObject> {
        match (scope, namespace) {
            (Scope::Cluster, _) | (_, None) => Api::all_with(client.clone(), &resource),
            (_, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        }
    };
    let list = match (scope, namespace) {
        (Scope::Labelled(label), _) => ListParams::default().labels(label),
        (Scope::Cluster, Some(name)) => ListParams::default().fields(&format!("metadata.name={name}")),
        _ => ListParams::default(),
    };
    let originals = served(api(from).list(&list).await).with_context(|| format!("cannot list {plural}"))?;
    let there = served(api(to).list_metadata(&list).await);
    let there = there.with_context(|| format!("cannot list {plural} of the target"))?;
    let writer = Objects::new(to);
    for original in originals {
        let is_there = there.iter().any(|one| one.name_any() == original.name_any());
        let is_owned = !original.owner_references().is_empty();
        if is_there || is_owned || original.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let place = original.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        copied.push(format!("{kind} {place}{}", original.name_any()));
        if !dry_run {
            let copy = bare(original, &resource)?;
            writer.create_if_missing(&copy).await?;
        }
    }
    Ok(())
}

/// Returns an object without its status and the metadata that API servers add.
fn bare(object: DynamicObject, resource: &ApiResource) -> Result<Value> {
    let mut copy = serde_json::to_value(object).context("cannot write an object")?;
    copy["apiVersion"] = resource.api_version.as_str().into();
    copy["kind"] = resource.kind.as_str().into();
    if let Some(fields) = copy.as_object_mut() {
        fields.remove("status");
    }
    if resource.kind == "Namespace" {
        copy["spec"] = Value::Null;
    }
    if let Some(metadata) = copy["metadata"].as_object_mut() {
        metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    Ok(copy)
}
