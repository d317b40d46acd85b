//! What a vSphere admin does before clusters are applied: namespaces with their pool, folder, storage and classes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective};
use kube::discovery::{Scope, oneshot};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::manifest::{self, Needs};

const MANAGER: &str = "layercake";

/// Pool and folder, by MoID, in which a namespace's VMs are made.
#[derive(Clone, Debug)]
pub struct Placement {
    /// `vmware-system-resource-pool`.
    pub resource_pool: String,
    /// `vmware-system-vm-folder`.
    pub folder: String,
}

/// Sets the namespaces up that the clusters among `documents` live in; tells what was made.
pub async fn prepared(client: &Client, documents: &[Value], placement: &Placement) -> Result<Vec<String>> {
    let mut made = Vec::new();
    for (namespace, needs) in manifest::needs(documents) {
        namespace_made(client, &namespace, placement).await?;
        storage_assigned(client, &namespace, &needs).await?;
        classes_bound(client, &namespace, &needs).await?;
        let list =
            |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        made.push(format!(
            "namespace {namespace}: storage classes {}; VM classes {}",
            list(&needs.storage_classes),
            list(&needs.vm_classes)
        ));
    }
    Ok(made)
}

/// Makes the namespace, or gives an existing one its pool and folder.
pub async fn namespace_made(client: &Client, namespace: &str, placement: &Placement) -> Result<()> {
    let annotations = json!({
        "vmware-system-resource-pool": placement.resource_pool,
        "vmware-system-vm-folder": placement.folder,
    });
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "annotations": annotations},
    });
    applied(client, &object).await
}

async fn storage_assigned(client: &Client, namespace: &str, needs: &Needs) -> Result<()> {
    for class in &needs.storage_classes {
        let object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": class},
            "provisioner": "csi.vsphere.vmware.com",
            "parameters": {"storagePolicyID": "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"},
        });
        applied(client, &object).await?;
    }
    let keys = needs.storage_classes.iter();
    let hard: BTreeMap<_, _> =
        keys.map(|class| (format!("{class}.storageclass.storage.k8s.io/requests.storage"), "1Ti")).collect();
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": format!("{namespace}-storagequota"), "namespace": namespace},
        "spec": {"hard": hard},
    });
    applied(client, &object).await
}

async fn classes_bound(client: &Client, namespace: &str, needs: &Needs) -> Result<()> {
    for class in &needs.vm_classes {
        let object = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClassBinding",
            "metadata": {"name": class, "namespace": namespace},
            "classRef": {"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass", "name": class},
        });
        applied(client, &object).await?;
    }
    Ok(())
}

/// Applies one object of whatever kind; a field that its kind does not have is an error.
pub async fn applied(client: &Client, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (namespace, name) = manifest::key(object);
    let api = api_of(client, object, &namespace).await?;
    let mut params = PatchParams::apply(MANAGER).force();
    params.field_validation = Some(ValidationDirective::Strict);
    let patched = api.patch(&name, &params, &Patch::Apply(object)).await;
    patched.map_err(refusal).with_context(|| format!("cannot apply {kind} {namespace}/{name}")).map(drop)
}

/// The API server adds this to other errors; it tells an author nothing.
const UNCHECKED: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The API server's own words, and nothing around them.
fn refusal(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            let message = status.message.replace(UNCHECKED, "");
            // Which webhook it was is of no use to who wrote the object.
            let own = message.split_once(" denied the request: ").map(|(_, own)| own.to_owned());
            anyhow::Error::msg(own.unwrap_or(message))
        }
        error => error.into(),
    }
}

async fn api_of(client: &Client, object: &Value, namespace: &str) -> Result<Api<DynamicObject>> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let known = known(group, version, kind);
    let (resource, scope) = if let Some(known) = known {
        known
    } else {
        let found = oneshot::pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await;
        let unknown = || format!("the API server does not know kind {kind} of {group}/{version}");
        let (resource, capabilities) = found.with_context(unknown)?;
        (resource, capabilities.scope)
    };
    Ok(match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

/// The kinds applied in numbers need no discovery each time.
fn known(group: &str, version: &str, kind: &str) -> Option<(ApiResource, Scope)> {
    let (plural, scope) = match kind {
        "Namespace" => ("namespaces", Scope::Cluster),
        "StorageClass" => ("storageclasses", Scope::Cluster),
        "ResourceQuota" => ("resourcequotas", Scope::Namespaced),
        "VirtualMachineClass" => ("virtualmachineclasses", Scope::Cluster),
        "VirtualMachineClassBinding" => ("virtualmachineclassbindings", Scope::Namespaced),
        "TanzuKubernetesCluster" => ("tanzukubernetesclusters", Scope::Namespaced),
        _ => return None,
    };
    let kind = GroupVersionKind::gvk(group, version, kind);
    Some((ApiResource::from_gvk_with_plural(&kind, plural), scope))
}
