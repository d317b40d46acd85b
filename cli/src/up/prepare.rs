//! What a vSphere admin does before clusters are applied: namespaces with their pool, folder, storage and classes.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};

use crate::apply::apply;
use crate::manifest::{self, Needs};
use crate::session::Placement;

/// Sets the namespaces up that the clusters among `documents` live in; tells what was made.
pub async fn prepare_namespaces(
    client: &Client,
    documents: &[Value],
    placement: &Placement,
) -> Result<Vec<String>> {
    let mut made = Vec::new();
    for (namespace, needs) in manifest::needs(documents) {
        apply_namespace(client, &namespace, placement).await?;
        assign_storage(client, &namespace, &needs).await?;
        bind_classes(client, &namespace, &needs).await?;
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
pub async fn apply_namespace(client: &Client, namespace: &str, placement: &Placement) -> Result<()> {
    let annotations = json!({
        "vmware-system-resource-pool": placement.resource_pool,
        "vmware-system-vm-folder": placement.folder,
    });
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "annotations": annotations},
    });
    apply(client, &object).await
}

async fn assign_storage(client: &Client, namespace: &str, needs: &Needs) -> Result<()> {
    for class in &needs.storage_classes {
        let object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": class},
            "provisioner": "csi.vsphere.vmware.com",
            "parameters": {"storagePolicyID": "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"},
        });
        apply(client, &object).await?;
    }
    let keys = needs.storage_classes.iter();
    let hard: BTreeMap<_, _> =
        keys.map(|class| (format!("{class}.storageclass.storage.k8s.io/requests.storage"), "1Ti")).collect();
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": format!("{namespace}-storagequota"), "namespace": namespace},
        "spec": {"hard": hard},
    });
    apply(client, &object).await
}

async fn bind_classes(client: &Client, namespace: &str, needs: &Needs) -> Result<()> {
    for class in &needs.vm_classes {
        let object = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClassBinding",
            "metadata": {"name": class, "namespace": namespace},
            "classRef": {"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass", "name": class},
        });
        apply(client, &object).await?;
    }
    Ok(())
}
